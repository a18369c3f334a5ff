import { randomBytes } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { openPostgresStore } from "@sandpiper/server/store/postgres/open";
import { openSqliteStore } from "@sandpiper/server/store/sqlite/open";
import type { Store } from "@sandpiper/server/store/store";
import { createVault } from "@sandpiper/server/store/vault";
import { startPostgres } from "@sandpiper/server/test/support/postgres";
import { conversationRow, message, temporaryFolder } from "@sandpiper/server/test/support/store";
import { type Row, single } from "./measure.ts";

const conversations = 200;
const eventsEach = 50;
/** A text of 512 characters, which stands for an everyday message or a short output. */
const text = "A message of an everyday length. ".repeat(16).slice(0, 512);

/** Measures the disk space of conversations and events. The load of the machine has no effect. */
export async function benchBytes(): Promise<Row[]> {
  const vault = createVault(randomBytes(32));
  const folder = temporaryFolder();
  const server = await startPostgres();
  try {
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    const ask = async (sql: string) => Number((await server.query<{ size: string }>(sql, [], name))[0]!.size);
    const sizes = {
      async sqlite() {
        const files = readdirSync(join(folder.dir, "store")).filter((file) => file.endsWith(".db"));
        return files.reduce((sum, file) => sum + statSync(join(folder.dir, "store", file)).size, 0);
      },
      postgres: () =>
        ask(`SELECT sum(pg_total_relation_size(c.oid)) AS size FROM pg_class c
          JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'`),
    };
    const log = () => ask("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS size");
    const sqlite = await fill(() => openSqliteStore({ dir: folder.dir, vault }), sizes.sqlite);
    const postgres = await fill(() => openPostgresStore({ url, vault }), sizes.postgres, log);
    const events = { name: "the text of its message", figures: single(text.length / 1024) };
    return [
      row("bytes of a conversation without events, SQLite", sqlite.conversation),
      row("bytes of a conversation without events, PostgreSQL", postgres.conversation),
      {
        ...row(`bytes of each of ${conversations * eventsEach} events, SQLite`, sqlite.event),
        floor: events,
      },
      { ...row("the same, PostgreSQL", postgres.event), floor: events },
      { ...row("write-ahead log of an append of one event, PostgreSQL", postgres.logged!), floor: events },
    ];
  } finally {
    await server.remove();
    folder.remove();
  }
}

/** Returns the bytes of a conversation, of an event, and of the write-ahead log of an append. */
async function fill(
  open: () => Promise<Store>,
  size: () => Promise<number>,
  log?: () => Promise<number>,
): Promise<{ conversation: number; event: number; logged: number | undefined }> {
  // The size is read after the store is closed, because it has then written everything to its
  // files.
  const during = async (work: (store: Store) => Promise<void>) => {
    const store = await open();
    await work(store);
    await store.close();
    return size();
  };
  const rows = Array.from({ length: conversations }, () => conversationRow());
  const empty = await during(async () => {});
  const made = await during(async (store) => {
    for (const one of rows) await store.conversations.create(one);
  });
  let logged: number | undefined;
  const full = await during(async (store) => {
    const before = await log?.();
    for (let at = 0; at < eventsEach; at++)
      await Promise.all(rows.map(({ id }) => store.events.append(id, [message(text)])));
    const after = await log?.();
    if (before !== undefined && after !== undefined) logged = (after - before) / (conversations * eventsEach);
  });
  return {
    conversation: (made - empty) / conversations,
    event: (full - made) / (conversations * eventsEach),
    logged,
  };
}

function row(name: string, bytes: number): Row {
  return { name, unit: "KB", figures: single(bytes / 1024), target: "to plan with", met: true };
}
