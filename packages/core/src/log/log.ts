import { maskText } from "@sandpiper/wire";
import { type DestinationStream, destination, type Logger, pino } from "pino";
import type { SecretMask } from "../secrets/mask.ts";

export type { Logger } from "pino";

export type LogLevel = "fatal" | "error" | "warn" | "info" | "debug" | "silent";

/** Names of fields whose values are secrets wherever they stand in a logged object, two levels deep. */
const secretFields = [
  "apiKey",
  "api_key",
  "llm_api_key",
  "search_api_key",
  "sandbox_api_key",
  "session_api_key",
  "sessionKey",
  "authorization",
  "cookie",
  "password",
  "token",
  "secret",
  '["x-session-api-key"]',
  '["set-cookie"]',
];

/**
 * The logger of a server: JSON lines on standard error, or on `stream`. Fields with names of secrets are censored, and
 * every line goes through the mask, so that a secret inside a message or an error is not written either.
 */
export function createLogger(level: LogLevel, mask: SecretMask, stream?: DestinationStream): Logger {
  const at = (prefix: string) =>
    secretFields.map((field) =>
      field.startsWith("[") ? `${prefix}${field}` : `${prefix && `${prefix}.`}${field}`,
    );
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: [...at(""), ...at("*"), ...at("*.*")], censor: maskText },
      hooks: { streamWrite: (line) => mask.mask(line) },
    },
    stream ?? destination({ dest: 2, sync: true }),
  );
}
