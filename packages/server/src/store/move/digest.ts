import { createHash, type Hash } from "node:crypto";

/** The number of a table's rows, and a digest for each group of consecutive rows. */
export interface TableDigest {
  rows: number;
  /**
   * For the log of events, digests by the first column of the rows; for other tables, one digest
   * under an empty text.
   */
  groups: ReadonlyMap<string, string>;
}

/** Computes the digest of a table from its rows in the order of the key. */
export class DigestSum {
  readonly #isGrouped: boolean;
  readonly #groups = new Map<string, string>();
  #rows = 0;
  #group: string | undefined;
  #hash: Hash | undefined;

  /** `isGrouped`: the rows with the same first column get a digest of their own. */
  constructor(isGrouped: boolean) {
    this.#isGrouped = isGrouped;
  }

  /** `row` is the text of a row, with its newline. */
  add(row: Buffer): void {
    const group = this.#isGrouped ? row.toString("latin1", 0, row.indexOf(9)) : "";
    if (group !== this.#group) this.#begin(group);
    this.#hash!.update(row);
    this.#rows++;
  }

  end(): TableDigest {
    this.#finish();
    return { rows: this.#rows, groups: this.#groups };
  }

  #begin(group: string): void {
    this.#finish();
    this.#group = group;
    this.#hash = createHash("sha256");
  }

  #finish(): void {
    if (this.#hash) this.#groups.set(this.#group!, this.#hash.digest("base64"));
    this.#hash = undefined;
  }
}

/** Returns the groups whose digests differ, or that only one side has. */
export function differingGroups(one: TableDigest, other: TableDigest): string[] {
  const names = new Set([...one.groups.keys(), ...other.groups.keys()]);
  return [...names].filter((name) => one.groups.get(name) !== other.groups.get(name));
}
