/**
 * One problem of a request in FastAPI's form (app-server.md section 0, row "errors"). It never
 * repeats the input, which may be a secret.
 */
export interface Issue {
  /** `body`, `query` or `path`, then keys and indexes. */
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** A request that does not match its schema: 422 with a list of issues. */
export class InvalidInput extends Error {
  readonly issues: readonly Issue[];

  constructor(issues: readonly Issue[]) {
    super(issues.map((issue) => `${formatLocation(issue)}: ${issue.msg}`).join("; "));
    this.name = "InvalidInput";
    this.issues = issues;
  }
}

/** For malformed JSON, `loc` has a position instead of a key. */
function formatLocation({ loc, type }: Issue): string | number | undefined {
  return (type === "json_invalid" ? "" : loc.slice(1).join(".")) || loc[0];
}
