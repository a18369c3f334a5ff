import type { ErrorCode, ValidationIssue } from "./types.ts";

/**
 * Why there is no usable response: the server could not be reached, did not answer in time, or
 * answered with something that is no answer of a Sandpiper server.
 */
export type ConnectionFailure = "Unreachable" | "TimedOut" | "Unreadable";

export interface RequestFailure {
  method: string;
  /** Path of the request, without the query. */
  path: string;
  status: number;
  detail: string;
  code?: ErrorCode | ConnectionFailure | undefined;
  issues?: readonly ValidationIssue[] | undefined;
  errorId?: string | undefined;
  retryAfterMs?: number | undefined;
}

/** The one error of this client. The message is a sentence for people. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly method: string;
  /** Path of the request, without the query. */
  readonly path: string;
  /** HTTP status; 0 when there was no response, or when what a response reports has failed. */
  readonly status: number;
  /** The server's reason: a sentence, or the problems of the input. */
  readonly detail: string;
  /** The kind of the failure; undefined when the server names none, as for an unknown path. */
  readonly code: ErrorCode | ConnectionFailure | undefined;
  /** The problems of a request that does not fit its schema. */
  readonly issues: readonly ValidationIssue[];
  /** The id under which the server's log has the cause of a status 500. */
  readonly errorId: string | undefined;
  /** Time after which another try is worthwhile, if the server names one, ms. */
  readonly retryAfterMs: number | undefined;

  constructor({ issues = [], ...failure }: RequestFailure, options?: ErrorOptions) {
    super(failure.detail, options);
    this.method = failure.method;
    this.path = failure.path;
    this.status = failure.status;
    this.detail = failure.detail;
    this.code = failure.code;
    this.issues = issues;
    this.errorId = failure.errorId;
    this.retryAfterMs = failure.retryAfterMs;
  }

  /** Whether the same request may succeed a little later: the server is away or busy. */
  get isTransient(): boolean {
    if (this.status === 0) return this.code === "Unreachable" || this.code === "TimedOut";
    return [408, 429, 502, 503, 504].includes(this.status);
  }
}

/** The error of a response that is not `ok`. Reads its body. */
export async function readFailure(
  response: Response,
  request: { method: string; path: string },
): Promise<RequestError> {
  const { status, headers } = response;
  const code = (headers.get("x-sandpiper-error") ?? undefined) as ErrorCode | undefined;
  const retryAfter = Number(headers.get("retry-after") ?? Number.NaN);
  return new RequestError({
    ...request,
    status,
    code,
    ...(Number.isFinite(retryAfter) && { retryAfterMs: retryAfter * 1000 }),
    ...parseFailure(await response.text()),
  });
}

/** Reads the reason from the body of a failed response. Each family of routes has its own shape. */
export function parseFailure(body: string): Pick<RequestFailure, "detail" | "issues" | "errorId"> {
  const fallback = { detail: body.trim().slice(0, 300) || "no reason given" };
  let parsed: Record<string, unknown>;
  try {
    parsed = JSON.parse(body);
  } catch {
    return fallback;
  }
  if (typeof parsed !== "object" || parsed === null) return fallback;
  const { detail, error, message, error_id } = parsed;
  const errorId = typeof error_id === "string" ? error_id : undefined;
  const issues = Array.isArray(detail) ? (detail as ValidationIssue[]) : undefined;
  const found = issues?.map(({ loc, msg }) => `${loc?.join(".") ?? ""}: ${msg ?? ""}`).join("; ");
  const text = found ?? [detail, error, message].map(toSentence).find((each) => each !== undefined);
  return { detail: text ?? fallback.detail, issues, errorId };
}

/** Returns a text, or the `message` of an object. */
function toSentence(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  const { message } = (value ?? {}) as { message?: unknown };
  return typeof message === "string" ? message : undefined;
}
