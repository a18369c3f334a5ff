import { STATUS_CODES } from "node:http";
import {
  CodedFailure,
  CodedValidationError,
  Failure,
  HTTPValidationError,
  OpenAiFailure,
  SettingsFailure,
} from "@sandpiper/wire";
import type { RouteOptions } from "fastify";
import { codedStatuses, openAiFailure } from "../server/errors.ts";
import type { Components } from "./components.ts";
import { type JsonSchema, type Response, toJsonSchema } from "./schema.ts";

/** Failures in the same form on every route. */
const beforeRouting: ReadonlySet<number> = new Set([414, 431]);

const descriptions: Record<number, string> = {
  400: "The request is not valid",
  401: "The key is missing, unknown, revoked or expired",
  403: "The key is read-only or belongs to another sandbox, or a page of another site used the login",
  404: "The id is unknown, or belongs to another user",
  409: "The resource's state does not allow the request",
  410: "The resource was removed permanently",
  413: "The body is too large",
  414: "The address or a part of its path is too long",
  415: "The route does not accept the body's content type",
  422: "A parameter or the body does not fit its schema",
  431: "The headers are too large",
  429: "Too many requests or queued work; `Retry-After` says when to try again",
  502: "A server that the request depends on failed",
  503: "A sandbox does not start or does not respond",
  504: "A server that the request depends on took too long",
  507: "The server's disk is full; nothing was stored",
};

/**
 * The failure statuses of a route, by its kind and its configuration. Below a sandbox, every route
 * that needs a key responds 404 to users who do not own the sandbox.
 */
export function getFailureStatuses(
  { method, url, schema = {}, config }: RouteOptions,
  isBelowSandbox = false,
): number[] {
  const changes = method !== "GET" && method !== "HEAD";
  const statuses = new Set<number>(config?.failures);
  // Reads also respond 403: to pages of other sites that use a login, and some to read-only keys.
  for (const status of config?.access === "public" ? [429] : [401, 403, 429]) statuses.add(status);
  if (schema.params || schema.querystring || schema.headers || schema.body)
    statuses.add(config?.invalidInput ?? 422);
  if (url.includes("/:") || url.includes("*")) for (const status of [400, 404]) statuses.add(status);
  if (schema.body) for (const status of [400, 413, 415]) statuses.add(status);
  if (isBelowSandbox && config?.access !== "public") statuses.add(404);
  // Refused before routing: the address is too long, the headers are too large.
  for (const status of [414, 431]) statuses.add(status);
  if (changes && config?.access !== "public") statuses.add(507);
  return [...statuses].sort((a, b) => a - b);
}

/** Shared failure responses: one component for each status and family. */
export class FailureResponses {
  readonly responses: Record<string, Response> = {};
  readonly #components: Components;

  constructor(components: Components) {
    this.#components = components;
  }

  /** A reference to the response for a status in a family. */
  toReference(status: number, ofRoute: string): Response {
    const isCommon = beforeRouting.has(status) || (ofRoute === "coded" && !codedStatuses.has(status));
    const family = isCommon ? "detail" : ofRoute;
    const name = `${STATUS_CODES[status]!.replaceAll(/\W/g, "")}${family === "detail" ? "" : `.${family}`}`;
    this.responses[name] ??= this.toResponse(status, family);
    return { $ref: `#/components/responses/${name}` };
  }

  /** The response itself, for routes that answer in other forms too. */
  toResponse(status: number, family: string): Response {
    return {
      description: descriptions[status] ?? STATUS_CODES[status]!,
      content: {
        "application/json": {
          schema: this.#components.toReference(getSchema(status, family)),
          example: buildFailureExample(status, family),
        },
      },
    };
  }
}

function getSchema(status: number, family: string): JsonSchema {
  if (family === "openai") return toJsonSchema(OpenAiFailure);
  if (family === "coded") return toJsonSchema(status === 422 ? CodedValidationError : CodedFailure);
  const shape = family === "error" ? SettingsFailure : status === 422 ? HTTPValidationError : Failure;
  return toJsonSchema(shape);
}

function buildFailureExample(status: number, family: string): unknown {
  const text = descriptions[status] ?? STATUS_CODES[status]!;
  if (family === "openai") return openAiFailure({ status, text });
  if (family === "coded") return { detail: { code: "plugin_fetch_failed", message: text } };
  const detail =
    status === 422
      ? [{ loc: ["query", "limit"], msg: "Input must be <= 100", type: "less_than_equal" }]
      : text;
  return family === "detail" ? { detail } : { [family]: text, detail };
}
