import { openPostgresStore } from "@sandpiper/server/store/postgres/open";
import { createVault } from "@sandpiper/server/store/vault";
import { message } from "@sandpiper/server/test/support/store";
import pg from "pg";

/**
 * Appends to each conversation of a node again and again (`appends`), or commits rows over the
 * connections of a node (`bare`). Prints the number of appends or commits per second.
 */
const { BENCH_URL: url = "", BENCH_KEY: key = "", BENCH_IDS: ids = "", BENCH_MS: ms = "" } = process.env;
const text = "A message of an everyday length. ".repeat(16);
const conversations = ids.split(" ");
/** Number of connections in the pool of a node. */
const connections = 10;

async function repeat(works: readonly (() => Promise<unknown>)[]): Promise<void> {
  const warmUpMs = 1_000;
  const began = performance.now();
  let count = 0;
  const end = began + warmUpMs + Number(ms);
  await Promise.all(
    works.map(async (work) => {
      for (let now = performance.now(); now < end; now = performance.now()) {
        await work();
        if (now > began + warmUpMs) count += 1;
      }
    }),
  );
  process.stdout.write(`per second: ${(count / (Number(ms) / 1000)).toFixed(1)}\n`);
}

if (process.argv[2] === "bare") {
  const clients = Array.from({ length: connections }, () => new pg.Client({ connectionString: url }));
  for (const client of clients) await client.connect();
  const insert = { name: "bare", text: "INSERT INTO bare (text) VALUES ($1)", values: [text] };
  await repeat(clients.map((client) => () => client.query(insert)));
} else {
  const store = await openPostgresStore({ url, vault: createVault(Buffer.from(key, "hex")) });
  await repeat(conversations.map((id) => () => store.events.append(id, [message(text)])));
}
