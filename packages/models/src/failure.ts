import {
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  TypeValidationError,
} from "@ai-sdk/provider";
import { PlatformError } from "@sandpiper/core/errors";
import { BrokenStream } from "./event-stream-frames.ts";

/** What went wrong in one attempt to call a model, in the same terms for every provider. */
export interface CallFailure {
  /** The provider's own words where there are any. */
  message: string;
  /** HTTP status, also when the error arrived inside a stream. */
  status?: number;
  /** Whether the same request may succeed a little later. */
  retryable: boolean;
  /** Delay that the provider requests, milliseconds. */
  retryAfterMs?: number;
  /** The address has no name, no host or no listener. */
  unreachable?: boolean;
  /** The provider is unreachable and may be back in some minutes. */
  away?: boolean;
  /** The provider gave no answer in time. */
  timedOut?: boolean;
  /** The prompt is larger than the model's context window. */
  tooLong?: boolean;
}

/** Thrown by an attempt that took too long or whose stream went silent. */
export class CallTimeout extends Error {}

/** An answer without text, tool calls or a reason for that. */
export class EmptyResponse extends Error {}

export function toCallFailure(error: unknown): CallFailure {
  if (error instanceof CallTimeout)
    return { message: error.message, retryable: true, away: true, timedOut: true };
  if (error instanceof EmptyResponse || error instanceof BrokenStream)
    return { message: error.message, retryable: true };
  if (APICallError.isInstance(error)) return describeCallError(error);
  if (
    JSONParseError.isInstance(error) ||
    TypeValidationError.isInstance(error) ||
    isUnreadableFirstEvent(error)
  ) {
    return { message: "the endpoint sent a stream that cannot be read", retryable: true };
  }
  if (InvalidResponseDataError.isInstance(error))
    return { message: `the stream broke off: ${error.message}`, retryable: true };
  // The error of Node's fetch for a broken connection.
  if (error instanceof TypeError && /^(?:terminated|fetch failed)$/.test(error.message)) {
    return {
      message: "the endpoint closed the connection before the end of its answer",
      retryable: true,
      away: true,
    };
  }
  if (error instanceof TypeError && /ByteString/.test(error.message)) {
    return {
      message: "the API key or a header holds a character that HTTP cannot carry: store llm_api_key again",
      retryable: false,
    };
  }
  if (error instanceof Error) return { message: error.message, retryable: false };
  return describeStreamError(error);
}

/** The error of the Anthropic client when the first event of a stream is not JSON. */
function isUnreadableFirstEvent(error: unknown): boolean {
  return error instanceof Error && error.message === "Expected a normalized Anthropic stream error";
}

function describeCallError(error: APICallError): CallFailure {
  const status = error.statusCode;
  const message = providerMessage(error.responseBody) ?? error.message;
  // A 200 whose body cannot be read is a broken connection, not a refusal.
  if (status === undefined || status < 300) {
    const cause = error.cause instanceof Error ? error.cause.message : "";
    const isWrapped = message === "Failed to process successful response" && cause !== "";
    const text = isWrapped ? cause : message + (message.includes(cause) ? "" : `: ${cause}`);
    return {
      message: status === undefined ? nameAddress(text, error.url) : text,
      // Ports that fetch never connects to.
      retryable: !/\bbad port$/.test(text) && (error.isRetryable || status !== undefined),
      ...(isUnreachable(error.cause) && { unreachable: true }),
      ...(status === undefined && { away: true }),
    };
  }
  const text = message.trim() || "no explanation";
  const tooLong = isTooLong(status, `${text} ${error.responseBody?.slice(0, 10_000)}`);
  const retryAfterMs = parseRetryAfter(error.responseHeaders ?? {});
  return {
    message: text,
    status,
    retryable: !tooLong && isRetryableStatus(status, error.responseBody),
    ...([502, 503, 504].includes(status) && { away: true }),
    ...(tooLong && { tooLong }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

/** Says where a connection was attempted; the path may be long, or have a key. */
function nameAddress(message: string, url: string): string {
  const host = URL.parse(url)?.host;
  return host && !message.includes(host)
    ? message.replace(/^Cannot connect to API/, `$& at ${host}`)
    : message;
}

/**
 * An error event of a stream: `{message, type, code, statusCode?}`; provider-specific fields are
 * omitted.
 */
function describeStreamError(error: unknown): CallFailure {
  if (typeof error !== "object" || error === null) return { message: String(error), retryable: true };
  const { message, statusCode, code, type } = error as Record<string, unknown>;
  const status = [statusCode, code].map(Number).find((number) => number >= 400 && number < 600);
  const text =
    typeof message === "string" && message !== ""
      ? message
      : typeof type === "string"
        ? type
        : "an unnamed error";
  const tooLong = isTooLong(status, `${text} ${code}`);
  return {
    message: text,
    ...(status && { status }),
    ...(tooLong && { tooLong }),
    retryable: !tooLong && (!status || isRetryableStatus(status, `${text} ${code}`)),
  };
}

/** Whether nothing listens at an address, by the codes of what a connection failed by. */
/** The address has no name, no host or no listener. */
export function isUnreachable(cause: unknown): boolean {
  for (let error = cause, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (
      /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/.test(
        String((error as NodeJS.ErrnoException).code),
      )
    ) {
      return true;
    }
  }
  return false;
}

/**
 * A prompt that is too long is refused with a 4xx or an error without status. Rate limits on tokens
 * (429) have similar words. Some proxies send 500.
 */
function isTooLong(status: number | undefined, text: string): boolean {
  if (status === 429 || status === 401 || status === 403) return false;
  return status === 413 || contextPatterns.some((pattern) => pattern.test(text));
}

function isRetryableStatus(status: number, body: string | undefined): boolean {
  // A used-up quota is answered with 429 as well, but waiting a minute does not fill it.
  if (status === 429) return !/insufficient_quota/.test(body ?? "");
  // 424 is how Bedrock numbers a model that failed in the middle of its answer.
  return [408, 409, 424, 425].includes(status) || status >= 500;
}

/**
 * Extracts the message from the usual error bodies: `{error:{message}}`, `{error}`, `{message}`,
 * `{detail}`, a list of those, plain text.
 */
function providerMessage(body: string | undefined): string | undefined {
  if (!body?.trim()) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return /^\s*</.test(body) ? undefined : body.trim().slice(0, 500);
  }
  if (Array.isArray(value)) value = value[0];
  for (const key of ["error", "message", "detail"]) {
    if (typeof value === "string") return value;
    if (typeof value !== "object" || value === null) return undefined;
    const record = value as Record<string, unknown>;
    if (key in record) value = record[key];
  }
  return typeof value === "string" ? value : undefined;
}

/** Milliseconds from `retry-after-ms`, or `retry-after` in seconds or as a date. */
function parseRetryAfter(headers: Record<string, string>): number | undefined {
  const precise = Number.parseFloat(headers["retry-after-ms"] ?? "");
  if (precise >= 0) return precise;
  const text = headers["retry-after"];
  if (!text) return undefined;
  const seconds = Number(text);
  const milliseconds = Number.isNaN(seconds) ? Date.parse(text) - Date.now() : seconds * 1000;
  return milliseconds >= 0 ? milliseconds : undefined;
}

const contextPatterns = [
  /context[_ ]?(length|window|size|limit)/i,
  /ContextWindowExceeded/,
  /maximum (context|prompt length|model length)/i,
  /model token limit/i,
  /prompt is too long/i,
  /input is too long/i,
  /exceeds? the (maximum|available) (number of tokens|context)/i,
  /reduce the length of/i,
  /too many (input )?tokens/i,
  /input token count/i,
];

/**
 * Whether a call failed because its prompt exceeds the context window; the remedy is to condense.
 */
export function isContextExceeded(error: unknown): boolean {
  return error instanceof PlatformError && error.code === "ContextWindowExceeded";
}

/**
 * Converts a failure to the error for callers: model, status and the provider's words, with all
 * secrets masked.
 */
export function toModelError(
  model: string,
  failure: CallFailure,
  attempts: number,
  secrets: readonly string[],
): PlatformError {
  const status = failure.status ? ` (HTTP ${failure.status})` : "";
  const times = attempts > 1 ? ` after ${attempts} attempts` : "";
  const hint = failure.status === 401 || failure.status === 403 ? " - check llm_api_key" : "";
  const message = secrets.reduce(maskKey, failure.message).slice(0, 1000);
  const detail = `${times}${status}: ${message}${hint}`;
  return new PlatformError(errorKey(failure), { model, detail });
}

/** The statuses by which a provider rejects the key, the account, or the name of the model. */
const refusedSettings = new Set([401, 402, 403, 404]);

/**
 * What callers see of a failure: the settings of the user are a client error, everything else is
 * the provider's.
 */
function errorKey({ tooLong, timedOut, status = 0 }: CallFailure) {
  if (tooLong) return "PromptTooLong";
  if (timedOut || status === 504) return "ModelCallTimedOut";
  return refusedSettings.has(status) ? "ModelCallRefused" : "ModelCallFailed";
}

/** Takes a key out of a text, in the forms in which endpoints echo it. */
export function maskKey(text: string, apiKey: string | undefined): string {
  if (!apiKey) return text;
  const forms = [
    apiKey,
    encodeURIComponent(apiKey),
    JSON.stringify(apiKey).slice(1, -1),
    Buffer.from(apiKey).toString("base64"),
  ];
  return [...new Set(forms)].reduce((masked, form) => masked.replaceAll(form, "***"), text);
}
