import { type Static, Type } from "typebox";

/**
 * One problem of a request, in FastAPI's form (app-server.md section 0, row "errors"). Inputs are
 * omitted, because they may be secrets.
 */
export const ValidationIssue = Type.Object({
  loc: Type.Array(Type.Union([Type.String(), Type.Integer()]), {
    description: "`body`, `query`, `path` or `header`, then keys and indexes",
  }),
  msg: Type.String(),
  type: Type.String(),
});

/** The answer to a request that failed: one sentence. */
export const Failure = Type.Object({ detail: Type.String() });

/** The answer to a request that does not fit its schema: its problems, or one sentence. */
export const HTTPValidationError = Type.Object({
  detail: Type.Union([Type.Array(ValidationIssue), Type.String()]),
});

/** A failure with a code for programs. */
export const CodedFailure = Type.Object({
  detail: Type.Object({
    code: Type.String({ description: "of the kind of failure, such as `plugin_fetch_failed`" }),
    message: Type.String(),
  }),
});

/** The same for a status that parameters and bodies also get when they do not fit their schemas. */
export const CodedValidationError = Type.Object({
  detail: Type.Union([...HTTPValidationError.properties.detail.anyOf, CodedFailure.properties.detail]),
});

/** The same in the settings family, with the sentence in `error` in addition to `detail`. */
export const SettingsFailure = Type.Object({
  error: Type.String(),
  detail: Type.Optional(Type.Union([Type.Array(ValidationIssue), Type.String()])),
  keys: Type.Optional(Type.Array(Type.String(), { description: "the keys of the body that are refused" })),
});

export type ValidationIssue = Static<typeof ValidationIssue>;
