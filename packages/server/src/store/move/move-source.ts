import { DatabaseSync } from "node:sqlite";
import type { MovedTable } from "./moved-tables.ts";
import { toRowText, type Value } from "./row-text.ts";

/** A row of a table in the text format of COPY. */
export interface MovedRow {
  /** The text that the copy sends. */
  text: Buffer;
  /** The text that the comparison uses: the same text with exact doubles. */
  compared: Buffer;
}

/** The store of a data folder, which nobody else changes while it is open. */
export class MoveSource {
  readonly #database: DatabaseSync;
  readonly #place: string | null;

  /**
   * `place` is the id of the data folder, where the files of its sandboxes are; null: every server
   * can run them. `isLocked` keeps commands such as `sandpiper keys` from writing.
   */
  constructor(file: string, { place, isLocked }: { place: string | null; isLocked: boolean }) {
    this.#database = new DatabaseSync(file, { readOnly: !isLocked, timeout: 5_000 });
    this.#place = place;
    this.#database.exec(isLocked ? "BEGIN IMMEDIATE" : "BEGIN");
  }

  count({ name }: MovedTable): number {
    return this.#database.prepare(`SELECT count(*) AS count FROM ${name}`).get()!.count as number;
  }

  /** The id of a conversation by its number. */
  conversationId(number: string): string | undefined {
    const row = this.#database.prepare("SELECT id FROM conversations WHERE number = ?").get(number);
    return row?.id as string | undefined;
  }

  /** The rows in the order of the key, read one by one. */
  *rows(table: MovedTable): Generator<MovedRow> {
    const { name, columns, key, sourceKey = key, computed = {}, derive } = table;
    const own = this.#columnsOf(name);
    const names = Object.keys(columns);
    const types = Object.values(columns);
    const hasDoubles = types.includes("double");
    const selected = names
      .filter((column) => own.has(column) || Object.hasOwn(computed, column))
      .map((column) => (computed[column] === undefined ? column : `${computed[column]} AS ${column}`));
    const statement = this.#database.prepare(
      `SELECT ${selected.join(", ")} FROM ${name} ORDER BY ${sourceKey}`,
    );
    for (const found of statement.iterate() as Iterable<Record<string, Value>>) {
      const row = derive ? { ...found, ...derive(found, this.#place) } : found;
      const values = names.map((column) => row[column]!);
      const text = Buffer.from(toRowText(values, types, false));
      yield { text, compared: hasDoubles ? Buffer.from(toRowText(values, types, true)) : text };
    }
  }

  close(): void {
    this.#database.close();
  }

  #columnsOf(table: string): Set<string> {
    const rows = this.#database.prepare("SELECT name FROM pragma_table_info(?)").all(table);
    return new Set(rows.map(({ name }) => name as string));
  }
}
