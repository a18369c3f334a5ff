import { newId } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { StoreEngine } from "../../../test/store-suite/engine.ts";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { sqliteEngine } from "../../../test/store-suite/sqlite-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { read, startServer, type TestServer } from "../../../test/support/test-server.ts";

/** A conversation and what belongs to it are stored together, wherever its creation breaks off. */

const owned = ["conversation_agents", "conversation_contexts", "conversation_secrets", "callbacks"];
/** Tables that a removal of half a conversation would change: a dead server changes nothing. */
const cleaned = ["conversation_secrets", "callbacks", "conversations"];

/** Each way to create a conversation, with the tables that it fills. */
const ways = {
  create: ["conversations", ...owned, "pending_messages"],
  fork: ["conversations", ...owned],
  child: ["conversations", ...owned, "pending_messages"],
  reported: ["conversations", "callbacks"],
};
type Way = keyof typeof ways;
const cases = Object.entries(ways).flatMap(([way, tables]) =>
  tables.map((table) => [way as Way, table] as const),
);

let postgres: PostgresServer;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.remove());

describeCreations(sqliteEngine, async () => undefined);
describeCreations(
  postgresEngine(() => postgres),
  () => postgres.createDatabase(),
);

function describeCreations(
  { name, query }: StoreEngine,
  createDatabase: () => Promise<string | undefined>,
): void {
  describe(`creations on ${name}`, () => {
    const isSqlite = name === "SQLite";
    let server: TestServer;
    let place: string;
    let key: string;
    /** A conversation with everything that a fork and a child take over. */
    let source: string;
    const faults: string[] = [];

    beforeAll(async () => {
      const webhook = { url: "http://127.0.0.1:9/", secret: "a secret", format: "signed" } as const;
      const url = await createDatabase();
      const database = url === undefined ? undefined : ({ from: "variable", url } as const);
      server = await startServer({ webhook, outboundPrivate: ["127.0.0.0/8"], database });
      place = url ?? server.config.dataDir;
      key = server.addSandbox().sessionKey;
      source = (await make("create", newId())).body.id;
      await server.addMessages(source, "one");
    });
    afterEach(mend);
    afterAll(() => server.close());

    const call = (path: string, body: unknown) => read(server.call("POST", path, { key, body }));

    function make(way: Way, id: string) {
      const agent_context = { skills: [{ name: "own", content: "Text.", trigger: null }] };
      const request = {
        conversation_id: id,
        agent: { kind: "Agent", llm: { model: "openai/any" }, tools: [], agent_context },
        workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
        initial_message: { content: [{ type: "text", text: "Begin." }] },
        secrets: { TOKEN: "a-planted-secret" },
      };
      if (way === "create") return call("/api/conversations", request);
      if (way === "fork") return call(`/api/conversations/${source}/fork`, { id });
      if (way === "reported") return call("/api/v1/webhooks/conversations", { id });
      return call(`/api/conversations/${source}/children`, { task: "Work.", isolation: "shared" });
    }

    /** Makes the statements of a trigger fail. */
    async function fault(event: string, table: string): Promise<void> {
      const trigger = `fault_${faults.length}`;
      const on = `CREATE TRIGGER ${trigger} BEFORE ${event} ON ${table}`;
      await query(
        place,
        isSqlite
          ? `${on} BEGIN SELECT RAISE(ABORT, 'fault'); END`
          : `CREATE OR REPLACE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'fault'; END $$;
             ${on} FOR EACH ROW EXECUTE FUNCTION fault()`,
      );
      faults.push(`DROP TRIGGER ${trigger}${isSqlite ? "" : ` ON ${table}`}`);
    }

    async function mend(): Promise<void> {
      for (const sql of faults.splice(0)) await query(place, sql);
    }

    /** The ids of conversations in each table. */
    async function stored(): Promise<Record<string, string[]>> {
      const tables = [...owned, "pending_messages"];
      const all = [
        // A hidden log has no user.
        "SELECT 'conversations' AS place, id FROM conversations WHERE user_id <> ''",
        ...tables.map((table) => `SELECT '${table}', conversation_id FROM ${table}`),
      ];
      const found: Record<string, string[]> = {};
      for (const { place: table, id } of await query(place, `${all.join(" UNION ALL ")} ORDER BY 1, 2`))
        found[String(table)] = [...(found[String(table)] ?? []), String(id)];
      return found;
    }

    test.each(cases)("%s that cannot write to %s stores nothing, and then everything", async (way, table) => {
      const id = newId();
      const before = await stored();
      await fault("INSERT", table);
      // A fork gives its hidden log an id.
      if (way === "fork" && table === "conversations") await fault("UPDATE OF id", table);
      for (const one of cleaned) await fault("DELETE", one);
      expect((await make(way, id)).status).toBeGreaterThanOrEqual(400);
      expect(await stored()).toEqual(before);

      await mend();
      expect((await make(way, id)).status).toBeLessThan(300);
      const after = await stored();
      const added = after.conversations!.filter((one) => !before.conversations!.includes(one));
      expect(added).toHaveLength(1);
      for (const one of ways[way].filter((name) => name !== "pending_messages"))
        expect([one, after[one]?.filter((each) => each === added[0])]).toEqual([one, added]);
      if (!ways[way].includes("pending_messages")) return;
      // The message is delivered at once.
      await expect.poll(() => server.store.events.count(added[0]!)).toBeGreaterThan(0);
      expect((await stored()).pending_messages).toEqual(before.pending_messages);
    });
  });
}
