import { randomBytes } from "node:crypto";
import { openPostgresStore } from "@sandpiper/server/store/postgres/open";
import { openSqliteStore } from "@sandpiper/server/store/sqlite/open";
import type { Store } from "@sandpiper/server/store/store";
import { createVault } from "@sandpiper/server/store/vault";
import { startPostgres } from "@sandpiper/server/test/support/postgres";
import { conversationRow, message, temporaryFolder } from "@sandpiper/server/test/support/store";
import pg from "pg";
import { figures, inTurn, type Row } from "./measure.ts";

const samples = 400;
const atOnce = 20;
const text = "A message of an everyday length. ".repeat(16);

/** Measures the store on PostgreSQL beside a bare commit of the same server and beside SQLite. */
export async function benchPostgres(): Promise<Row[]> {
  const server = await startPostgres({});
  const folder = temporaryFolder();
  const vault = createVault(randomBytes(32));
  const url = await server.createDatabase();
  const bare = new pg.Client({ connectionString: url });
  const stores: Store[] = [];
  try {
    await bare.connect();
    const postgres = await openPostgresStore({ url, vault });
    stores.push(postgres);
    const sqlite = await openSqliteStore({ dir: folder.dir, vault });
    stores.push(sqlite);
    await bare.query("CREATE TABLE bare (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text)");
    const insert = { name: "bare", text: "INSERT INTO bare (text) VALUES ($1)", values: [text] };
    const ids = await createConversations(postgres);
    const sqliteIds = await createConversations(sqlite);
    const append = (store: Store, id: string) => store.events.append(id, [message(text)]);
    const [commit, one, many, oneSqlite, manySqlite] = (
      await inTurn(
        samples,
        [
          () => bare.query(insert),
          (index) => append(postgres, ids[Math.abs(index) % atOnce]!),
          () => Promise.all(ids.map((id) => append(postgres, id))),
          (index) => append(sqlite, sqliteIds[Math.abs(index) % atOnce]!),
          () => Promise.all(sqliteIds.map((id) => append(sqlite, id))),
        ],
        { warmUp: 40, block: 20 },
      )
    ).map((series) => figures(series)) as [Figures, Figures, Figures, Figures, Figures];
    const floor = { name: "bare commit of one row on the same server", figures: commit };
    return [
      row("append on PostgreSQL", one, floor, "p50 <= 2 x floor", one.p50 <= 2 * commit.p50),
      row(
        `appends to ${atOnce} conversations at once on PostgreSQL`,
        many,
        { name: "one append", figures: one },
        "p50 < 3 x floor",
        many.p50 < 3 * one.p50,
      ),
      row("append on SQLite, in the same run", oneSqlite, floor, "for comparison", true),
      row(
        `appends to ${atOnce} conversations at once on SQLite`,
        manySqlite,
        { name: "one append", figures: oneSqlite },
        "for comparison",
        true,
      ),
    ];
  } finally {
    for (const store of stores) await store.close();
    await bare.end();
    await server.remove();
    folder.remove();
  }
}

type Figures = Row["figures"];

function row(name: string, own: Figures, floor: Row["floor"], target: string, met: boolean): Row {
  return { name, unit: "ms", figures: own, ...(floor && { floor }), target, met };
}

async function createConversations(store: Store): Promise<string[]> {
  const rows = Array.from({ length: atOnce }, () => conversationRow());
  for (const one of rows) await store.conversations.create(one);
  return rows.map(({ id }) => id);
}
