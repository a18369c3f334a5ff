import type { ErrorCode } from "@sandpiper/wire/common/error-codes";

/** A message with `{name}` for each parameter, or a function of named parameters. */
export type ErrorText = string | ((params: never) => string);

/**
 * The texts of one area by code and key. A text is one sentence that says what is wrong and, where
 * there is something to do, what. It never carries a secret.
 */
export type ErrorTexts = { readonly [Code in ErrorCode]?: Readonly<Record<string, ErrorText>> };
