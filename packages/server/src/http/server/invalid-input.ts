/** One problem of a request, in FastAPI's form (app-server.md section 0, row "errors"). Inputs are not echoed: they may be secrets. */
export interface Issue {
  /** Where: `body`, `query` or `path`, then keys and indexes. */
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** A request that does not fit its schema; answered with 422 and the list of issues. */
export class InvalidInput extends Error {
  readonly issues: readonly Issue[];

  constructor(issues: readonly Issue[]) {
    super(issues.map((issue) => `${placeOf(issue)}: ${issue.msg}`).join("; "));
    this.name = "InvalidInput";
    this.issues = issues;
  }
}

/** Of a body that is no JSON `loc` has a position and not a key. */
function placeOf({ loc, type }: Issue): string | number | undefined {
  return (type === "json_invalid" ? "" : loc.slice(1).join(".")) || loc[0];
}
