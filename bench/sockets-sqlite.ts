import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { stamped } from "./sockets-drive.ts";

/** Rows per second that plain SQLite makes durable: one table without a second index, so many rows in each transaction, each transaction synced. */
export function plainSqlite(rowsAtOnce: number, ms: number, length: number): number {
  const dir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const database = new DatabaseSync(join(dir, "plain.db"));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE events (key INTEGER PRIMARY KEY, json TEXT)");
  const insert = database.prepare("INSERT INTO events (json) VALUES (?)");
  const begin = performance.now();
  let rows = 0;
  while (performance.now() - begin < ms) {
    database.exec("BEGIN IMMEDIATE");
    for (let index = 0; index < rowsAtOnce; index++) {
      const content = [{ type: "text", text: stamped(length) }];
      insert.run(
        JSON.stringify({ id: randomUUID(), kind: "MessageEvent", source: "user", llm_message: { role: "user", content } }),
      );
    }
    database.exec("COMMIT");
    rows += rowsAtOnce;
  }
  const perSecond = (rows * 1000) / (performance.now() - begin);
  database.close();
  rmSync(dir, { recursive: true, force: true });
  return perSecond;
}
