import { type ErrorCode, statuses } from "@sandpiper/wire/common/error-codes";
import { catalogue, type ErrorKey, type ErrorParams } from "./errors/catalogue.ts";
import type { ErrorText } from "./errors/texts.ts";

export type { ErrorCode } from "@sandpiper/wire/common/error-codes";
export type { ErrorKey } from "./errors/catalogue.ts";

type Options = ErrorOptions & { retryAfter?: number };
/** Parameters of a text first, if it has any; the message of a code. */
type Rest<Key> = Key extends ErrorKey
  ? keyof ErrorParams<Key> extends never
    ? [options?: Options]
    : [params: ErrorParams<Key>, options?: Options]
  : [message: string, options?: Options];

const placeholder = /\{(\w+)\}/g;

/**
 * The one error that callers see: `new PlatformError("UnknownSandbox", { id })`. The catalogue
 * gives code, status and message; a route turns the error into the shape of its family, and nothing
 * else chooses status codes. Only a message from outside of this code, such as from a recording,
 * comes with its code instead of a key.
 */
export class PlatformError<Key extends ErrorKey | ErrorCode = ErrorKey | ErrorCode> extends Error {
  /** Stable identifier, for tests and clients. */
  readonly code: ErrorCode;
  /** HTTP status. */
  readonly status: number;
  /** Seconds until another try is worthwhile, for the header `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(key: Key, ...rest: Rest<Key>) {
    const entry = catalogue.get(key);
    const { code, message, options } = entry
      ? fill(entry, rest)
      : { code: key as ErrorCode, message: rest[0] as string, options: rest[1] as Options };
    super(message, options);
    this.name = code;
    this.code = code;
    this.status = statuses[code];
    this.retryAfter = options?.retryAfter;
  }
}

function fill([code, text]: readonly [ErrorCode, ErrorText], rest: readonly unknown[]) {
  const hasParams = typeof text === "function" || text.search(placeholder) >= 0;
  const [params, options] = (hasParams ? rest : [{}, rest[0]]) as [Record<string, unknown>, Options?];
  const message =
    typeof text === "function"
      ? // The constructor has checked the parameters of this key.
        text(params as never)
      : text.replace(placeholder, (_whole, name) => String(params[name]));
  return { code, message, options };
}

/** The text of anything thrown, for logs and events. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
