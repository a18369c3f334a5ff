import { setTimeout as delay } from "node:timers/promises";
import { type Gate, openGate } from "@sandpiper/core/test/support/gate";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Health } from "./isolation/health.ts";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { obey } from "./support/script.ts";

/** A model endpoint is away for three minutes in three ways; runs recover alone. */

let server: TestPlatform;
let models: ModelServer;
let gate: Gate;
let health: Health;

beforeAll(async () => {
  models = await startModelServer(obey);
  gate = await openGate(models.url);
  server = await startTestPlatform();
  health = new Health(server.url);
  const settings = { llm_model: "openai/gpt-4o-mini", llm_api_key: "sk-test", llm_base_url: gate.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterAll(async () => {
  health?.end();
  await server?.stop();
  await gate?.close();
  await models?.close();
});

const status = async (id: string) =>
  (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].execution_status;
const rests = (id: string) =>
  until(async () => [await status(id)].find((one) => ["finished", "error"].includes(one)), 200);
const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;
const say = (id: string, text: string) =>
  server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });
const outputs = async (id: string) =>
  (await events(id)).flatMap(({ observation }) =>
    observation?.kind === "TerminalObservation" ? observation.content : [],
  );

test("runs continue by themselves once it is available again, whenever it failed", async () => {
  const [early, late] = [
    await startConversation(server.call, "Hello"),
    await startConversation(server.call, "Hello"),
  ];
  for (const { id } of [early, late]) expect(await rests(id)).toBe("finished");
  await health.look();

  const began = performance.now();
  const since = () => (performance.now() - began) / 1000;
  const at = (second: number) => delay(Math.max(0, second - since()) * 1000);
  await gate.close();
  await say(early.id, "run: echo early");
  await at(20);
  await gate.hang();
  await at(60);
  await say(late.id, "run: echo late");
  await at(80);
  expect([await status(early.id), await status(late.id)]).toEqual(["running", "running"]);
  await gate.reset();
  await at(180);
  // The early one has used up the attempts that a wrong address would get.
  expect([await status(early.id), await status(late.id)]).toEqual(["running", "running"]);
  await gate.open();
  for (const { id } of [early, late]) expect(await rests(id)).toBe("finished");
  expect(since()).toBeLessThan(270);
  expect((await outputs(early.id)).map(({ text }) => text)).toEqual(["early\n"]);
  expect((await outputs(late.id)).map(({ text }) => text)).toEqual(["late\n"]);
  for (const { id } of [early, late])
    expect((await events(id)).some(({ kind }) => kind === "ConversationErrorEvent")).toBe(false);
  const { count, p99, lag } = await health.look();
  process.stdout.write(
    `/health while the endpoint was away: p99 ${p99.toFixed(1)} ms of ${count}, timers late by ${lag.toFixed(1)} ms\n`,
  );
  expect(p99).toBeLessThan(100 + 4 * lag);
}, 300_000);
