import { maskText } from "@sandpiper/wire";
import { type DestinationStream, destination, type Logger, pino } from "pino";
import type { SecretMask } from "../secrets/mask.ts";

export type { Logger } from "pino";

export type LogLevel = "fatal" | "error" | "warn" | "info" | "debug" | "silent";

/** Names of secret fields in logged objects, up to two levels deep. */
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
 * Creates the logger of a server: JSON lines on standard error, or on `stream`. It censors secret
 * fields and passes every line through the mask, so messages and errors show no secret either.
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
