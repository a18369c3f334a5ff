import { afterAll, beforeAll, expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { conversationRow } from "../../../test/support/store.ts";
import { ProjectContexts } from "./project-context.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

test("changes of a context at two nodes keep each other's result, also where a node has an old one", async () => {
  const { place, remove } = await engine.newPlace();
  const stores = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  const row = conversationRow();
  await stores[0]!.conversations.create(row);
  const nodes = stores.map((store) => new ProjectContexts(store.contexts));
  const note = (node: number, text: string) =>
    nodes[node]!.change(row.id, (context) => ({ ...context, notes: [...context.notes, text] }));
  await note(0, "first");
  expect((await nodes[1]!.get(row.id)).notes).toEqual(["first"]);
  await note(0, "second");
  await note(1, "third");
  await Promise.all(Array.from({ length: 10 }, (_, index) => note(index % 2, `note ${index}`)));
  nodes[0]!.forget();
  const { notes } = await nodes[0]!.get(row.id);
  expect(notes.slice(0, 3)).toEqual(["first", "second", "third"]);
  expect(notes).toHaveLength(13);
  for (const store of stores) await store.close();
  await remove();
});
