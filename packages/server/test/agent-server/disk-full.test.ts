import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterEach, expect, test } from "vitest";
import { sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, until } from "../support/platform.ts";
import { finish } from "../support/script.ts";

/** What clients of a sandbox's agent server receive when the disk of the data folder is full. */

const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const work of cleanup.splice(0).reverse()) await work();
});

test("with a full disk every write gets 507 and changes nothing, pauses and reads work, and writes work again once there is space", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "sandpiper-full-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=711", "sandpiper-test", dataDir]);
  cleanup.push(() => {
    execFileSync("umount", ["--lazy", dataDir]);
    rmSync(dataDir, { recursive: true, force: true });
  });
  const models = await startModelServer(({ system, messages }) => {
    if (system.includes("You judge whether"))
      return reply.text('{"done": true, "feedback": "All is there."}');
    return messages.at(-1)!.text === "aside" ? reply.text("An answer.") : finish("Done.");
  });
  cleanup.push(() => models.close());
  const server = await startTestPlatform({ dataDir });
  // The mount itself cannot be removed.
  cleanup.push(() => server.stop().catch(() => {}));
  const agent = await startAgentServer(server);
  const text = "x".repeat(20_000);
  const message = { role: "user", content: [{ type: "text", text }] };
  const make = async (change: Json = {}) =>
    (await agent.call("POST", "/api/conversations", sdkRequest(models.url, { autotitle: false, ...change })))
      .body.id as string;
  const info = async (id: string): Promise<Json> =>
    (await agent.call("GET", `/api/conversations/${id}`)).body;
  const finished = (id: string) =>
    until(async () => (await info(id)).execution_status === "finished" || undefined);
  const id = await make({ initial_message: { ...message, content: [{ type: "text", text: "Begin." }] } });
  await finished(id);
  const [first] = (await agent.call("GET", `/api/conversations/${id}/events/search`)).body.items;
  const paused = await make();

  const ballast = join(dataDir, "ballast");
  expect(() => writeFileSync(ballast, Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
  const base = `/api/conversations/${id}`;
  const made = "0b9b1d52-6a52-4f6e-9d0c-5b7c0a3f1e10";
  const forked = "0b9b1d52-6a52-4f6e-9d0c-5b7c0a3f1e11";
  const llm = {
    model: "openai/other",
    base_url: models.url,
    api_key: "sk-other",
    usage_id: text.slice(0, 200),
  };
  const writes: [method: string, path: string, body?: unknown][] = [
    [
      "POST",
      "/api/conversations",
      sdkRequest(models.url, { conversation_id: made, initial_message: message }),
    ],
    ["POST", `${base}/events`, { ...message, run: true }],
    ["PATCH", base, { title: "x".repeat(200), tags: { one: "x".repeat(256) } }],
    ["POST", `${base}/confirmation_policy`, { policy: { kind: "NeverConfirm" } }],
    ["POST", `${base}/security_analyzer`, { security_analyzer: { kind: "LLMSecurityAnalyzer" } }],
    ["POST", `${base}/secrets`, { secrets: { BIG: text } }],
    ["POST", `${base}/switch_llm`, { llm }],
    ["POST", `${base}/fork`, { id: forked }],
    ["POST", `${base}/navigate`, { event_id: first.id }],
    ["POST", `${base}/goal`, { objective: text }],
    ["POST", `/api/conversations/${paused}/run`],
    ["POST", `${base}/ask_agent`, { question: "aside" }],
    ["PATCH", "/api/settings", { agent_settings_diff: { llm: { model: text.slice(0, 200) } } }],
    ["PUT", "/api/settings/secrets", { name: "BIG", value: text }],
    ["POST", "/api/profiles/big", { llm: { model: text.slice(0, 200) } }],
    ["POST", "/api/bash/start_bash_command", { command: `: ${text}` }],
    ["POST", "/api/bash/execute_bash_command", { command: `: ${text}` }],
  ];
  const before = await info(id);
  for (const [method, path, body] of writes) {
    const answer = await agent.call(method, path, body);
    expect([path, answer.status, answer.body]).toEqual([path, 507, expect.anything()]);
  }
  expect((await server.call("GET", "/health")).status).toBe(200);
  expect((await agent.call("POST", `/api/conversations/${paused}/pause`)).status).toBe(200);
  expect((await info(paused)).execution_status).toBe("paused");
  expect(await info(id)).toEqual(before);
  for (const none of [made, forked])
    expect((await agent.call("GET", `/api/conversations/${none}`)).status).toBe(404);

  rmSync(ballast);
  for (const [method, path, body] of writes) {
    // A message ends the current activity, so that the other requests find the conversation idle.
    await until(async () => (await info(id)).execution_status !== "running" || undefined);
    const { status, body: answer } = await agent.call(method, path, body);
    expect([path, status < 300, answer]).toEqual([path, true, expect.anything()]);
  }
  await finished(made);
  const { body } = await agent.call(
    "GET",
    `/api/conversations/${made}/events/search?kind=MessageEvent&limit=1`,
  );
  expect(body.items[0].llm_message.content[0].text).toBe(text);
  await until(async () => (await info(id)).agent_state.goal?.status === "complete" || undefined);
});
