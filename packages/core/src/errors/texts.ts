import type { ErrorCode } from "./statuses.ts";

/**
 * One text of an error: its code, and its message or a function that makes the message of named parameters. A message is one
 * sentence that says what is wrong and, where there is something to do, what. It never carries a secret.
 */
export type ErrorText = readonly [code: ErrorCode, message: string | ((params: never) => string)];

/** The texts of one area by their keys. Several keys may share a code. */
export type ErrorTexts = Readonly<Record<string, ErrorText>>;
