import { catalogue, type ErrorKey } from "./errors/catalogue.ts";
import { type ErrorCode, statuses } from "./errors/statuses.ts";
import type { ErrorText } from "./errors/texts.ts";

export type { ErrorKey } from "./errors/catalogue.ts";
export type { ErrorCode } from "./errors/statuses.ts";

type Options = ErrorOptions & { retryAfter?: number };
/** Parameters of a text first, if it has any. */
type Rest<Key> = Key extends ErrorKey
  ? (typeof catalogue)[Key][1] extends (params: infer Params) => string
    ? [params: Params, options?: Options]
    : [options?: Options]
  : [message: string, options?: Options];

/**
 * The one error that callers see: `new PlatformError("ConversationUnknown", { id })`. The catalogue gives code, status and message; a
 * route turns the error into the shape of its family, and nothing else chooses status codes.
 */
export class PlatformError<Key extends ErrorKey | ErrorCode = ErrorKey | ErrorCode> extends Error {
  /** Stable identifier, for tests and clients. */
  readonly code: ErrorCode;
  /** HTTP status. */
  readonly status: number;
  /** Seconds until another try is worthwhile, for the header `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(key: Key, ...rest: Rest<Key>) {
    const text = (catalogue as Readonly<Record<string, ErrorText>>)[key];
    const hasParams = !text || typeof text[1] === "function";
    const options = (hasParams ? rest[1] : rest[0]) as Options | undefined;
    super(text ? messageOf(text, rest[0] as never) : (rest[0] as string), options);
    this.retryAfter = options?.retryAfter;
    this.code = text ? text[0] : (key as ErrorCode);
    this.name = this.code;
    this.status = statuses[this.code];
  }
}

function messageOf([, message]: ErrorText, params: never): string {
  return typeof message === "string" ? message : message(params);
}

/** The text of anything thrown, for logs and events. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
