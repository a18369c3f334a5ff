import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { type PostgresServer, startPostgres } from "./support/postgres.ts";
import { terminal } from "./support/script.ts";

/** What the server does by itself waits for a PostgreSQL that is away longer than requests wait. */

/** Longer than any statement waits for a database to come back. */
const awayMs = 5_000;

let server: PostgresServer;
let platform: TestPlatform;
let models: Awaited<ReturnType<typeof startModelServer>>;
/** The model answers when this resolves. */
let gate: Promise<unknown> = Promise.resolve();

beforeAll(async () => {
  server = await startPostgres();
  models = await startModelServer(async ({ messages }) => {
    await gate;
    return messages.some(({ role }) => role === "tool")
      ? reply.text("Done.")
      : reply.toolCalls([terminal("echo worked >> /tmp/work; cat /tmp/work")]);
  });
  const database = { from: "variable", url: await server.createDatabase() } as const;
  platform = await startTestPlatform({ database, outboundPrivate: ["127.0.0.0/8"] });
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  await platform.call("POST", "/api/settings", settings);
});
afterAll(async () => {
  await platform.stop();
  await models.close();
  await server.remove();
});

async function breakDown(): Promise<void> {
  await server.kill();
  await new Promise((resolve) => setTimeout(resolve, awayMs));
  await server.start();
}

const start = async () => {
  const initial_message = { content: [{ type: "text", text: "Work." }] };
  const { status, body } = await platform.call("POST", "/api/v1/app-conversations", { initial_message });
  expect(status).toBe(200);
  return body.id as string;
};
/** The answer, once the database is there again. */
const get = async (path: string) => {
  const { status, body } = await platform.call("GET", path);
  return status === 200 ? body : undefined;
};
const ended = (task: string) =>
  until(async () => {
    const [found] = (await get(`/api/v1/app-conversations/start-tasks?ids=${task}`)) ?? [];
    return found && ["READY", "ERROR"].includes(found.status) ? found : undefined;
  });

async function expectWorkDone(id: string): Promise<void> {
  await until(async () => {
    const [found] = (await get(`/api/v1/app-conversations?ids=${id}`)) ?? [];
    return found?.execution_status === "finished" || undefined;
  });
  const { items } = await get(`/api/v1/conversation/${id}/events/search?limit=100`);
  const shown = items.filter(({ kind }: { kind: string }) => kind === "ObservationEvent");
  expect(JSON.stringify(shown)).not.toMatch(/worked[^a-z]+worked/);
  expect(shown).toHaveLength(1);
}

test("a start whose database dies after the answer goes on when it is back", async () => {
  const task = await start();
  await breakDown();
  const { status, detail, app_conversation_id: id } = await ended(task);
  expect({ status, detail }).toEqual({ status: "READY", detail: null });
  await expectWorkDone(id);
});

test("a run whose database is away when the model answers goes on when it is back", async () => {
  const { promise, resolve: open } = Promise.withResolvers<void>();
  gate = promise;
  const asked = models.requests.length;
  const task = await start();
  await until(() => models.requests.length > asked || undefined);
  const { app_conversation_id: id } = await ended(task);
  const down = breakDown();
  setTimeout(open, 500);
  await down;
  await expectWorkDone(id);
});
