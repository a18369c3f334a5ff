import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type ErrorCode, PlatformError } from "@sandpiper/core/errors";
import { errorCodeHeader, newId, type OpenAiFailure } from "@sandpiper/wire";
import type { FastifyError, FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import type { Static } from "typebox";
import { getPrefixSandbox } from "../routes/agent-server/view.ts";
import { InvalidInput, type Issue } from "./invalid-input.ts";
import type { App } from "./services.ts";
import { decodePath, maskUrl } from "./urls.ts";

/**
 * Route families differ in the key of an error's text: `detail`, `error` in settings (app-server.md
 * section 0), and for OpenAI clients an object in `error`. `coded`: `detail` has a code and the
 * text.
 */
export type ErrorFamily = "detail" | "error" | "openai" | "coded";

/** The statuses of `coded` whose detail has a code (agent-server-1.58.md section 4.2). */
export const codedStatuses: ReadonlySet<number> = new Set([422, 502, 504]);

declare module "fastify" {
  interface FastifyContextConfig {
    errors?: ErrorFamily;
    /** Status for input that the schemas reject; 422 by default. */
    invalidInput?: 400;
  }
}

/** A failed request before its family's shape is applied. `issues` is FastAPI's list of a 422. */
interface Failure {
  status: number;
  text: string;
  issues?: readonly Issue[];
  /** Code of the PlatformError. */
  code?: ErrorCode;
  /** Seconds. */
  retryAfter?: number | undefined;
}

/** Returns whether somebody else has answered a failed request. */
export type Rescue = (error: unknown, request: FastifyRequest, reply: FastifyReply) => Promise<boolean>;

/**
 * Gives every failure its family's shape, unless `rescue` answers the request. `rejectUnknownPath`
 * is the hook for paths without a route; it runs after authorization.
 */
export function installErrors(app: App, rescue?: Rescue): { rejectUnknownPath: onRequestHookHandler } {
  const table = routeTable(app);
  const respondNotFound = (request: FastifyRequest, reply: FastifyReply) => {
    const isAgentView =
      getPrefixSandbox(request.raw) !== undefined || request.principal?.sandboxId !== undefined;
    const allowed = table.methods(decodePath(request.url), isAgentView);
    if (allowed.length === 0) return sendFailure(request, reply, { status: 404, text: "Not Found" });
    reply.header("allow", allowed.join(", "));
    return sendFailure(request, reply, { status: 405, text: "Method Not Allowed" });
  };
  app.setErrorHandler(async (error, request, reply) => {
    if (!rescue) return sendError(error, request, reply);
    const isAnswered = await rescue(error, request, reply).catch(() => false);
    return isAnswered ? reply.hijack() : sendError(error, request, reply);
  });
  app.setNotFoundHandler(respondNotFound);
  return {
    // A client without a key must not make the server read a body.
    rejectUnknownPath: (request, reply, done) => {
      if (request.is404) respondNotFound(request, reply);
      else done();
    },
  };
}

/**
 * Responds to a failure. An unexpected error is logged under an id, and the caller sees only the
 * id.
 */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const failure =
    toFailure(error, request) ??
    (reply.raw.destroyed ? { status: 400, text: "The request broke off" } : undefined);
  if (failure) return sendFailure(request, reply, failure);
  const errorId = newId();
  request.log.error(
    { err: error, errorId, method: request.method, url: maskUrl(request.url) },
    "request failed",
  );
  return reply
    .code(500)
    .send({ ...toBody(request, { status: 500, text: "Internal Server Error" }), error_id: errorId });
}

function toFailure(error: unknown, request: FastifyRequest): Failure | undefined {
  if (error instanceof InvalidInput) {
    const status = request.routeOptions?.config?.invalidInput;
    return status
      ? { status, text: error.message }
      : { status: 422, text: error.message, issues: error.issues };
  }
  if (error instanceof PlatformError) {
    const { status, message, retryAfter, code } = error;
    return status === 500 ? undefined : { status, text: message, retryAfter, code };
  }
  const { statusCode, code } = error as Partial<FastifyError>;
  // Refusals of Fastify and its plugins (body size, lengths, URLs). Their messages may quote the
  // request.
  if (code?.startsWith("FST_") && statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return { status: statusCode, text: STATUS_CODES[statusCode] ?? "Bad Request" };
  }
  // Of the package that sends the pages' files.
  if (statusCode === 416) return { status: 416, text: STATUS_CODES[416]! };
  // Files of sandboxes and snapshots; the store reports a full disk itself.
  if (code === "ENOSPC" || code === "EDQUOT")
    return { status: 507, text: "The disk of the data folder is full: make room and try again." };
  return undefined;
}

function sendFailure(request: FastifyRequest, reply: FastifyReply, failure: Failure): FastifyReply {
  if (failure.status === 401) reply.header("www-authenticate", "Bearer");
  if (failure.retryAfter !== undefined) reply.header("retry-after", toRetryAfter(failure.retryAfter));
  const code = failure.code ?? (failure.issues && "InvalidParameter");
  if (code !== undefined) reply.header(errorCodeHeader, code);
  return reply.code(failure.status).send(toBody(request, failure));
}

/**
 * The settings family has its text in `error`, and also in `detail` for clients of the other
 * family.
 */
function toBody(request: FastifyRequest, failure: Failure): Record<string, unknown> {
  const { text, issues, status, code } = failure;
  const isCoded = request.routeOptions?.config?.errors === "coded" && codedStatuses.has(status);
  if (isCoded && !issues && code) return { detail: { code: toWords(code), message: text } };
  const detail = issues ?? text;
  if (request.routeOptions?.config?.errors === "openai") return openAiFailure(failure);
  return request.routeOptions?.config?.errors === "error" ? { error: text, detail } : { detail };
}

/** A code as clients of other APIs write it: `not_offered`. */
function toWords(code: ErrorCode): string {
  return code.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
}

/** A failure in the shape of OpenAI's API. */
export function openAiFailure({
  status,
  text,
  issues,
  code,
}: Pick<Failure, "status" | "text" | "issues" | "code">): Static<typeof OpenAiFailure> {
  const words = code ? toWords(code) : null;
  return {
    error: {
      message: text,
      type: status >= 500 ? "server_error" : "invalid_request_error",
      param: issues?.[0]?.loc.slice(1).join(".") || null,
      code: code === "Unauthorized" ? "invalid_api_key" : words,
    },
  };
}

/** Finds the methods of a path, for 405; the agent-server view has additional routes. */
function routeTable(app: App): { methods(path: string, isAgentView: boolean): string[] } {
  const routes: { pattern: RegExp; methods: string[]; isView: boolean }[] = [];
  app.addHook("onRoute", ({ url, method, constraints }) => {
    if (url === "*" || url === "/*") return;
    const segments = url.split(/:\w+/).map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    routes.push({
      pattern: new RegExp(`^${segments.join("[^/]+")}/?$`),
      methods: [method].flat(),
      isView: constraints !== undefined && "view" in constraints,
    });
  });
  return {
    methods(path, isAgentView) {
      const there = routes.filter(({ pattern, isView }) => (isAgentView || !isView) && pattern.test(path));
      return [...new Set(there.flatMap(({ methods }) => methods))];
    },
  };
}

/** Responds when Node's parser rejects a request: oversized headers, malformed HTTP, time-outs. */
export function respondToClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  const status =
    error.code === "HPE_HEADER_OVERFLOW" ? 431 : error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
  if (socket.writable) socket.end(rawResponse(status, STATUS_CODES[status]!));
  else socket.destroy();
}

/** A complete HTTP response with a JSON `detail`, for sockets without a response object. */
export function rawResponse(status: number, detail: unknown, retryAfter?: number): string {
  const body = JSON.stringify({ detail });
  const head = [
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  if (retryAfter !== undefined) head.push(`Retry-After: ${toRetryAfter(retryAfter)}`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join("\r\n")}\r\n\r\n${body}`;
}

function toRetryAfter(wait: number): number {
  return Math.max(1, Math.ceil(wait));
}
