import { STATUS_CODES } from "node:http";
import { Failure, HTTPValidationError, OpenAiFailure, SettingsFailure } from "@sandpiper/wire";
import type { RouteOptions } from "fastify";
import { openAiFailure } from "../server/errors.ts";
import type { Components } from "./components.ts";
import type { JsonSchema, Response } from "./schema.ts";

const sentences: Record<number, string> = {
  400: "The request makes no sense as it stands",
  401: "No key, or one that is unknown, revoked or expired",
  403: "The key may not do this: it is read-only, or belongs to another sandbox; or another site makes use of a login",
  404: "There is nothing of this id, or it is another user's",
  409: "The state of the resource does not allow it now",
  410: "It is gone for good",
  413: "The body is larger than the server takes",
  415: "The body is not of a type that the route takes",
  422: "A parameter or the body does not fit its schema",
  429: "Too many requests or queued work; `Retry-After` says when to come again",
  502: "Something that the server asked on behalf of the caller failed",
  503: "A sandbox does not start or does not answer",
  504: "Something that the server asked on behalf of the caller took too long",
  507: "The server's disk is full; nothing was stored",
};

/**
 * The statuses of failures that a route can give: those of its kind, and those that its configuration names. Below a sandbox every route that
 * wants a key answers 404 to the key of a user who has no such sandbox.
 */
export function failureStatuses(
  { method, url, schema = {}, config }: RouteOptions,
  isBelowSandbox = false,
): number[] {
  const changes = method !== "GET" && method !== "HEAD";
  const statuses = new Set<number>(config?.failures);
  // Reads too are refused with 403: to another site's page that makes use of a login, and some of them to read-only keys.
  for (const status of config?.access === "public" ? [429] : [401, 403, 429]) statuses.add(status);
  if (schema.params || schema.querystring || schema.headers || schema.body)
    statuses.add(config?.invalidInput ?? 422);
  if (url.includes("/:") || url.includes("*")) for (const status of [400, 404]) statuses.add(status);
  if (schema.body) for (const status of [400, 413, 415]) statuses.add(status);
  if (isBelowSandbox && config?.access !== "public") statuses.add(404);
  if (changes && config?.access !== "public") statuses.add(507);
  return [...statuses].sort((a, b) => a - b);
}

/** Shared answers to failures: one component for each status and family. */
export class FailureResponses {
  readonly responses: Record<string, Response> = {};
  readonly #components: Components;

  constructor(components: Components) {
    this.#components = components;
  }

  /** A reference to the answer of a status in a family. */
  refer(status: number, family: string): Response {
    const name = `${STATUS_CODES[status]!.replaceAll(/\W/g, "")}${family === "detail" ? "" : `.${family}`}`;
    this.responses[name] ??= {
      description: sentences[status] ?? STATUS_CODES[status]!,
      content: {
        "application/json": {
          schema: this.#components.refer(shapeOf(status, family)),
          example: exampleOf(status, family),
        },
      },
    };
    return { $ref: `#/components/responses/${name}` };
  }
}

function shapeOf(status: number, family: string): JsonSchema {
  if (family === "openai") return OpenAiFailure as unknown as JsonSchema;
  const shape = family === "error" ? SettingsFailure : status === 422 ? HTTPValidationError : Failure;
  return shape as unknown as JsonSchema;
}

function exampleOf(status: number, family: string): unknown {
  const text = sentences[status] ?? STATUS_CODES[status]!;
  if (family === "openai") return openAiFailure({ status, text });
  const detail =
    status === 422
      ? [{ loc: ["query", "limit"], msg: "Input must be <= 100", type: "less_than_equal" }]
      : text;
  return family === "detail" ? { detail } : { [family]: text, detail };
}
