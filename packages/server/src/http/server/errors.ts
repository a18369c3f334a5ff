import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type ErrorCode, PlatformError } from "@sandpiper/core/errors";
import { newId, type OpenAiFailure } from "@sandpiper/wire";
import type { FastifyError, FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import type { Static } from "typebox";
import { prefixSandbox } from "../routes/agent-server/view.ts";
import { InvalidInput, type Issue } from "./invalid-input.ts";
import type { App } from "./services.ts";
import { decodedPath, loggableUrl } from "./urls.ts";

/**
 * Families of routes differ in the key of an error's text: `detail`, and `error` in settings (app-server.md section 0). That of OpenAI's clients has
 * an object in `error`.
 */
export type ErrorFamily = "detail" | "error" | "openai";

declare module "fastify" {
  interface FastifyContextConfig {
    errors?: ErrorFamily;
    /** Status of the answer to input that the schemas refuse; default 422. */
    invalidInput?: 400;
  }
}

/** An answer to a failed request: status, and the body before the family's shape. `issues` is FastAPI's list of a 422. */
interface Failure {
  status: number;
  text: string;
  issues?: readonly Issue[];
  /** That of a PlatformError. */
  code?: ErrorCode;
  /** Seconds. */
  retryAfter?: number | undefined;
}

/** Makes every failure of the server a clear answer in its family's shape. `answerUnknown` is the hook that answers for paths without a route; authorization comes before it. */
export function installErrors(app: App): { answerUnknown: onRequestHookHandler } {
  const table = routeTable(app);
  const answer = (request: FastifyRequest, reply: FastifyReply) => {
    const isAgentView =
      prefixSandbox(request.raw) !== undefined || request.principal?.sandboxId !== undefined;
    const allowed = table.methods(decodedPath(request.url), isAgentView);
    if (allowed.length === 0) return send(request, reply, { status: 404, text: "Not Found" });
    reply.header("allow", allowed.join(", "));
    return send(request, reply, { status: 405, text: "Method Not Allowed" });
  };
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler(answer);
  return {
    // Before its body is read: nobody needs a key here.
    answerUnknown: (request, reply, done) => {
      if (request.is404) answer(request, reply);
      else done();
    },
  };
}

/** Answers a failure; what nobody expected is logged under an id, and the caller sees the id only. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const failure =
    expected(error, request) ??
    (reply.raw.destroyed ? { status: 400, text: "The request broke off" } : undefined);
  if (failure) return send(request, reply, failure);
  const errorId = newId();
  request.log.error(
    { err: error, errorId, method: request.method, url: loggableUrl(request.url) },
    "request failed",
  );
  return reply
    .code(500)
    .send({ ...shape(request, { status: 500, text: "Internal Server Error" }), error_id: errorId });
}

function expected(error: unknown, request: FastifyRequest): Failure | undefined {
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
  // Refusals of Fastify and its plugins: too large bodies, bad content lengths, bad URLs and paths. Their messages may quote the request.
  if (code?.startsWith("FST_") && statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return { status: statusCode, text: STATUS_CODES[statusCode] ?? "Bad Request" };
  }
  // Files of sandboxes and snapshots; what the store writes has said so already.
  if (code === "ENOSPC" || code === "EDQUOT")
    return { status: 507, text: "The disk of the data folder is full: make room and try again." };
  return undefined;
}

function send(request: FastifyRequest, reply: FastifyReply, failure: Failure): FastifyReply {
  if (failure.status === 401) reply.header("www-authenticate", "Bearer");
  if (failure.retryAfter !== undefined) reply.header("retry-after", seconds(failure.retryAfter));
  return reply.code(failure.status).send(shape(request, failure));
}

/** The settings family has its text in `error`; `detail` stands beside it, so that clients of either family can read it. */
function shape(request: FastifyRequest, failure: Failure): Record<string, unknown> {
  const { text, issues } = failure;
  const detail = issues ?? text;
  if (request.routeOptions?.config?.errors === "openai") return openAiFailure(failure);
  return request.routeOptions?.config?.errors === "error" ? { error: text, detail } : { detail };
}

/** A failure in the shape of OpenAI's API. */
export function openAiFailure({
  status,
  text,
  issues,
  code,
}: Pick<Failure, "status" | "text" | "issues" | "code">): Static<typeof OpenAiFailure> {
  const words = code?.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase() ?? null;
  return {
    error: {
      message: text,
      type: status >= 500 ? "server_error" : "invalid_request_error",
      param: issues?.[0]?.loc.slice(1).join(".") || null,
      code: code === "Unauthorized" ? "invalid_api_key" : words,
    },
  };
}

/** Knows which methods a path has, for 405 answers; in the view of the agent server some more. */
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

/** Answers what Node's parser refuses before there is a request: too large headers, malformed HTTP, time-outs. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  const status =
    error.code === "HPE_HEADER_OVERFLOW" ? 431 : error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
  if (socket.writable) socket.end(rawAnswer(status, STATUS_CODES[status]!));
  else socket.destroy();
}

/** A whole HTTP answer with a JSON `detail`, for sockets on which no response object exists. */
export function rawAnswer(status: number, detail: unknown, retryAfter?: number): string {
  const body = JSON.stringify({ detail });
  const head = [
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  if (retryAfter !== undefined) head.push(`Retry-After: ${seconds(retryAfter)}`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join("\r\n")}\r\n\r\n${body}`;
}

function seconds(wait: number): number {
  return Math.max(1, Math.ceil(wait));
}
