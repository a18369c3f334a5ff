import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

let server: TestPlatform;
let models: Awaited<ReturnType<typeof startModelServer>>;
let id: string;
/** All events of the conversation, as the list of events gives them. */
let all: Json[];

beforeAll(async () => {
  const commands = [
    "head -c 60000 /dev/zero | tr '\\0' x; echo end",
    "echo short",
    "printf 'é%.0s' $(seq 3000)",
  ];
  const replies = [...commands.map((command) => reply.toolCalls([terminal(command)])), finish("Done.")];
  models = await startModelServer(({ index }) => replies[index] ?? reply.text("The script has ended."));
  server = await startTestPlatform();
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
  ({ id } = await startConversation(server.call, "Print much"));
  await until(async () => {
    const [conversation] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return conversation.execution_status === "finished" || undefined;
  });
  all = (await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

const read = async (query: string, path = id) =>
  server.call("GET", `/api/v1/app-conversations/${path}/log?${query}`);

test("windows by number together are the list of events", async () => {
  const found: Json[] = [];
  for (let first = 1; ; first = found.at(-1)!.number + 1) {
    const { status, body } = await read(`first=${first}&limit=3&max_chars=16777216`);
    expect(status).toBe(200);
    expect(body.events).toBe(all.length);
    if (body.items.length === 0) break;
    found.push(...body.items);
  }
  expect(found.map(({ event }) => event)).toEqual(all);
  expect(found.map(({ number }) => number)).toEqual(all.map((_, index) => index + 1));
  expect(found.some(({ cut }) => cut)).toBe(false);
});

test("without a number, a window has the newest events and the place where a socket continues", async () => {
  const { body } = await read("limit=2&max_chars=16777216");
  expect(body.items.map(({ event }: Json) => event)).toEqual(all.slice(-2));
  const sequence = body.items.map(({ seq }: Json) => seq);
  expect(sequence).toEqual([...sequence].sort((one, other) => one - other));
  expect(body.last_seq).toBeGreaterThanOrEqual(sequence.at(-1));
});

test("long texts are cut in the middle, and only they", async () => {
  const { body } = await read("first=1&limit=500&max_chars=1000");
  expect(JSON.stringify(body).length).toBeLessThan(all.length * 8_000);
  for (const [index, { event, cut }] of body.items.entries()) {
    if (!cut) expect(event).toEqual(all[index]);
    expect(event.id).toBe(all[index]!.id);
  }
  const outputs = body.items.filter(({ event }: Json) => event.observation?.kind === "TerminalObservation");
  const texts = outputs.map(({ event }: Json) => event.observation.content[0].text);
  expect(outputs.map(({ cut }: Json) => cut)).toEqual([true, expect.any(Boolean), true]);
  expect(texts[0]).toMatch(/^x{500}\n\[\d+ characters are left out\]\n[\s\S]{500}$/);
  expect(texts[1]).toContain("short");
});

test("bad numbers, unknown conversations and other users get the errors of the list", async () => {
  expect((await read("first=0")).status).toBe(422);
  expect((await read("limit=501")).status).toBe(422);
  expect((await read("max_chars=1")).status).toBe(422);
  expect((await read("first=9007199254740991")).body.items).toEqual([]);
  expect((await read("", "00000000000000000000000000000000")).status).toBe(404);
  expect((await read("", "nonsense")).status).toBe(404);
});
