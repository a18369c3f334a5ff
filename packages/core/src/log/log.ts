import { maskText } from "@sandpiper/wire";
import { type DestinationStream, type Logger, pino } from "pino";
import type { SecretMask } from "../secrets/mask.ts";
import { cutLine } from "./cut-line.ts";
import { LineLimits } from "./line-limits.ts";
import { LineStream } from "./line-stream.ts";

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

/** Lines of a minute; a debug log has lines for each request. */
const bounds = { alike: 20, all: 500 };
const debugBounds = { alike: 2_000, all: 10_000 };

/** Pino's number of the level `error`. */
const errorLevel = 50;

/** Characters of a text that count when lines are compared. */
const comparedChars = 100;

/**
 * Creates the logger of a server: JSON lines on standard error, or on `stream`. It censors secret
 * fields and passes every line through the mask, so messages and errors show no secret either. The
 * lines of a minute are bounded, errors by a number of their own, and long lines are cut.
 */
export function createLogger(level: LogLevel, mask: SecretMask, stream?: DestinationStream): Logger {
  const at = (prefix: string) =>
    secretFields.map((field) =>
      field.startsWith("[") ? `${prefix}${field}` : `${prefix && `${prefix}.`}${field}`,
    );
  const limits = level === "debug" ? debugBounds : bounds;
  const report = (severity: "warn" | "error") => (leftOut: number) =>
    logger[severity]({ leftOut, ...limits }, "Log lines of the last minute were left out");
  const usual = new LineLimits(limits, report("warn"));
  const errors = new LineLimits(limits, report("error"));
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: [...at(""), ...at("*"), ...at("*.*")], censor: maskText },
      hooks: {
        logMethod(args, write, number) {
          const lines = number < errorLevel ? usual : errors;
          // A fatal error is the last line.
          if (number > errorLevel || lines.admit(kindOf(args, number))) write.apply(this, args);
        },
        streamWrite: (line) => cutLine(mask.mask(line)),
      },
    },
    stream ?? new LineStream(2),
  );
  return logger;
}

/** Level and text of a line, and the text of its error: different errors have the same line. */
function kindOf([facts, text]: readonly unknown[], level: number): string {
  const error = facts instanceof Error ? facts : (facts as { err?: unknown } | undefined)?.err;
  const message = error instanceof Error ? error.message.slice(0, comparedChars) : "";
  const own = typeof facts === "string" ? facts : text;
  return `${level} ${String(own).slice(0, comparedChars)} ${message}`;
}
