import { ConversationClient } from "@openhands/typescript-client/clients";
import { invalid } from "@sandpiper/core/test/support/stub";
import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";

/** Changes of an existing conversation by clients: secrets, models, titles. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
let other: AgentServer;
let client: ConversationClient;
let held: PromiseWithResolvers<Reply> | undefined;

beforeAll(async () => {
  models = await startModelServer(({ messages, system }) => {
    if (system.includes("You name conversations")) return reply.text("A made title");
    const last = messages.at(-1)!;
    const [, verb, rest = ""] = (last.role === "user" && /^(\w+): (.*)/m.exec(last.text)) || [];
    if (verb === "run") return reply.toolCalls([terminal(rest)]);
    if (verb === "hold") return held!.promise;
    return finish("Done.");
  });
  platform = await startTestPlatform();
  [agent, other] = await Promise.all([startAgentServer(platform), startAgentServer(platform)]);
  client = new ConversationClient({ host: agent.url, apiKey: agent.key });
});
afterAll(async () => {
  client?.close();
  await platform?.stop();
  await models?.close();
});

const make = async (change: Json = {}): Promise<string> => {
  const { status, body } = await agent.call("POST", "/api/conversations", sdkRequest(models.url, change));
  expect([status, body]).toEqual([201, body]);
  return body.id;
};
const post = (id: string, path: string, body: unknown) =>
  agent.call("POST", `/api/conversations/${id}/${path}`, body);
const done = { status: 200, body: { success: true } };
const content = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const waitForEnd = (id: string) =>
  until(
    async () => ((await client.getConversation(id)) as Json).execution_status === "finished" || undefined,
  );
/** Lets the agent run a command; returns its output. */
async function output(id: string, command: string): Promise<string> {
  await client.sendEvent(id, content(`run: ${command}`), { run: true });
  await waitForEnd(id);
  const { items } = (await client.searchEvents(id, {
    kind: "ObservationEvent",
    sort_order: "TIMESTAMP_DESC",
  })) as Json;
  return items.find(({ observation }: Json) => observation.command === command).observation.content[0].text;
}

test("secrets enter the sandbox as placeholders, also in an open shell, and are never shown", async () => {
  const id = await make();
  expect(await output(id, "cd /tmp; export KEPT=yes; echo [$EARLY]")).toContain("[]");
  expect(
    await post(id, "secrets", {
      secrets: {
        EARLY: "planted-value-early",
        OBJECT: { kind: "StaticSecret", value: "planted-value-object", description: "x" },
      },
    }),
  ).toEqual(done);
  const printed = await output(id, "echo [$EARLY] [$OBJECT] $KEPT $PWD");
  expect(printed).toMatch(/\[[^\]]{8,}\] \[[^\]]{8,}\] yes \/tmp/);
  expect(printed).not.toContain("planted-value");
  const shown = await client.getConversation(id);
  expect(shown).toMatchObject({
    secret_registry: { secret_sources: { EARLY: { value: "**********" }, OBJECT: { value: "**********" } } },
  });
  expect(JSON.stringify([shown, await client.searchEvents(id)])).not.toContain("planted-value");
  // The sandbox already has access to secrets: only the shell must be replaced.
  expect(await post(id, "secrets", { secrets: { LATER: "planted-value-later" } })).toEqual(done);
  expect(await output(id, "echo [$LATER] $KEPT")).toMatch(/\[[^\]]{8,}\] yes/);
  // An encrypted value that the client cannot read.
  await platform.call("POST", "/api/v1/settings", {
    agent_settings_diff: { llm: { model: "openai/x", api_key: "planted-value-key" } },
  });
  const settings = await agent.call("GET", "/api/settings", undefined, { "X-Expose-Secrets": "encrypted" });
  await post(id, "secrets", { secrets: { LATER: settings.body.agent_settings.llm.api_key } });
  const { values } = (await platform.platform.store.conversationSecrets.get(id))!;
  expect(values.LATER).toBe("planted-value-key");
  // A masked value keeps the stored secret; a URL of this server means the user's own secret.
  await platform.call("POST", "/api/v1/secrets", { name: "OWN", value: "planted-value-own" });
  const url = `${agent.url}/api/settings/secrets/OWN`;
  expect(
    await client.updateSecrets(
      id,
      invalid({
        secrets: {
          EARLY: "**********",
          FROM: { kind: "LookupSecret", url, headers: { "X-Session-API-Key": agent.key } },
        },
      }),
    ),
  ).toEqual({ success: true });
  expect(Object.keys(((await client.getConversation(id)) as Json).secret_registry.secret_sources)).toEqual([
    "EARLY",
    "OBJECT",
    "LATER",
    "FROM",
  ]);
  // The GUI lists paths of all secrets in each conversation; the user's own apply without a copy.
  const path = (name: string) => ({
    kind: "LookupSecret",
    url: `/api/settings/secrets/${name}`,
    headers: { "X-Session-API-Key": agent.key },
  });
  const { secrets: known } = (await agent.call("GET", "/api/settings/secrets")).body;
  const all = Object.fromEntries(known.map(({ name }: Json) => [name, path(name)]));
  expect(Object.keys(all)).toEqual(expect.arrayContaining(["OWN", "FROM"]));
  const other = (await agent.call("POST", "/api/conversations", sdkRequest(models.url, { secrets: all })))
    .body.id;
  const copied = (await platform.platform.store.conversationSecrets.get(other))!.values;
  expect(copied).toMatchObject({ FROM: "planted-value-own", LATER: "planted-value-key" });
  expect(copied).not.toHaveProperty("OWN");
});

test("invalid secrets are refused with an error", async () => {
  const id = await make();
  const bodies: [Json | string, number][] = [
    [{}, 422],
    [{ secrets: { "a b": "x" } }, 422],
    [{ secrets: { A: 7 } }, 422],
    [{ secrets: { A: { url: "no address" } } }, 422],
    [{ secrets: { A: { url: "/api/settings" } } }, 422],
    [{ secrets: { A: { url: `${platform.url}/api/settings/secrets/NOBODYS` } } }, 422],
    [{ secrets: { A: { url: `${platform.url}/api/settings/secrets/%E0%A4%A` } } }, 422],
    [{ secrets: { A: { url: "http://169.254.169.254/latest" } } }, 422],
    ['{"secrets":{"__proto__":"x"}}', 422],
    ["{", 422],
  ];
  for (const [body, status] of bodies)
    expect([body, (await post(id, "secrets", body)).status]).toEqual([body, status]);
});

test("a model switch during a run takes effect at the next call, with its own key", async () => {
  const id = await make();
  const socket = SocketClient.forConversation(agent, id);
  held = Promise.withResolvers<Reply>();
  const before = models.requests.length;
  await client.sendEvent(id, content("hold: on"), { run: true });
  await until(() => models.requests.length > before || undefined);
  await client.switchLLM(id, {
    model: "anthropic/claude-scripted",
    api_key: "sk-second-planted-key",
    base_url: models.url,
    usage_id: "second",
  });
  held.resolve(reply.toolCalls([terminal("true")]));
  await waitForEnd(id);
  expect(models.requests.at(-1)).toMatchObject({ wire: "anthropic", apiKey: "sk-second-planted-key" });
  const shown = (await client.getConversation(id)) as Json;
  expect(shown).toMatchObject({
    current_model_id: "anthropic/claude-scripted",
    agent: {
      llm: { model: "anthropic/claude-scripted", api_key: "**********", usage_id: "second" },
      tools: [{ name: "terminal" }, { name: "file_editor" }],
    },
  });
  expect((await socket.frame(({ key }) => key === "agent")).value.llm.model).toBe(
    "anthropic/claude-scripted",
  );
  expect(JSON.stringify([shown, socket.frames])).not.toContain("planted-key");
  socket.close();
  // Returned as it was read, the key stays for the same provider and URL, and is dropped for
  // others.
  await client.switchLLM(id, { ...shown.agent.llm, model: "anthropic/claude-third" });
  await client.sendEvent(id, content("more"), { run: true });
  await until(() => models.requests.at(-1)!.body.model === "claude-third" || undefined);
  expect(models.requests.at(-1)!.apiKey).toBe("sk-second-planted-key");
  await waitForEnd(id);
  const elsewhere = await startModelServer([finish("Stolen?")]);
  await client.switchLLM(id, { ...shown.agent.llm, base_url: elsewhere.url });
  await client.sendEvent(id, content("even more"), { run: true });
  await until(
    async () =>
      ["finished", "error"].includes(((await client.getConversation(id)) as Json).execution_status) ||
      undefined,
  );
  expect(JSON.stringify(elsewhere.requests)).not.toContain("planted-key");
  await elsewhere.close();
});

test("a conversation with default settings can switch to its own model, and an LLM profile has precedence", async () => {
  const llm = { model: "openai/of-the-settings", api_key: "sk-of-the-settings", base_url: models.url };
  await platform.call("POST", "/api/v1/settings", { agent_settings_diff: { llm } });
  await platform.call("POST", "/api/v1/settings/profiles/fast", {
    llm: { ...llm, model: "openai/of-the-profile" },
  });
  const { body } = await agent.call("POST", "/api/conversations", {
    workspace: { working_dir: "/workspace/project" },
    agent_settings: {},
  });
  const model = async (text: string) => {
    await client.sendEvent(body.id, content(text), { run: true });
    await waitForEnd(body.id);
    return models.requests.at(-1)!.body.model;
  };
  expect(await model("one")).toBe("of-the-settings");
  expect(models.requests.at(-1)!.tools).toEqual(
    expect.arrayContaining(["terminal", "file_editor", "finish"]),
  );
  await Promise.all([
    client.switchLLM(body.id, { ...llm, model: "openai/a" }),
    client.switchLLM(body.id, { ...llm, model: "openai/own" }),
  ]);
  // Of two requests at once either may come last.
  expect(["a", "own"]).toContain(await model("two"));
  expect(await post(body.id, "switch_profile", { profile_name: "fast" })).toEqual(done);
  expect(await model("three")).toBe("of-the-profile");
  expect(((await client.getConversation(body.id)) as Json).current_model_id).toBe("openai/of-the-profile");
  await client.switchLLM(body.id, { ...llm, model: "openai/again" });
  expect(await model("four")).toBe("again");
  expect((await post(body.id, "switch_profile", { profile_name: "nobodys" })).status).toBe(404);
  expect(await post(body.id, "switch_acp_model", { model: "x" })).toMatchObject({
    status: 400,
    body: { detail: expect.stringMatching(/ACP/) },
  });
});

test("the agent of agent_settings is also shown in the agent field", async () => {
  const settings = await agent.call("GET", "/api/settings", undefined, { "X-Expose-Secrets": "encrypted" });
  const { body } = await agent.call("POST", "/api/conversations", {
    workspace: { working_dir: "/workspace/project" },
    agent_settings: settings.body.agent_settings,
    secrets_encrypted: true,
  });
  expect(settings.body.agent_settings).toMatchObject({
    condenser: { condenser_kind: "llm_summarizing" },
    verification: {},
  });
  expect(body.agent).toMatchObject({
    kind: "Agent",
    llm: { model: "openai/of-the-settings", api_key: "**********" },
  });
  for (const key of ["schema_version", "agent", "agent_kind", "verification", "condenser"])
    expect(body.agent).not.toHaveProperty(key);
  const condenser = { kind: "NoOpCondenser" };
  const own = await agent.call("POST", "/api/conversations", {
    workspace: { working_dir: "/workspace/project" },
    agent_settings: { condenser },
  });
  expect(own.body.agent.condenser).toEqual(condenser);
});

test("the title is generated from the first message with the client's title profile, or not at all", async () => {
  const title = async (id: string) => ((await client.getConversation(id)) as Json).title;
  const plain = await make();
  await client.sendEvent(plain, content("Fix the bug\nand more"));
  await client.sendEvent(plain, content("Another"));
  expect(await title(plain)).toBe("Fix the bug");
  const none = await make({ autotitle: false, initial_message: content("Quiet") });
  await waitForEnd(none);
  await client.sendEvent(none, content("Loud"));
  expect(await title(none)).toBeNull();
  const named = await make({ title_llm_profile: "fast", initial_message: content("Something long") });
  await until(async () => (await title(named)) === "A made title" || undefined);
  await waitForEnd(named);
});

test("changes of a missing conversation or of another sandbox's get 404, bad bodies 422", async () => {
  const { body: foreign } = await other.call("POST", "/api/conversations", sdkRequest(models.url));
  const id = await make();
  const changes: Record<string, [good: Json, ...bad: unknown[]]> = {
    secrets: [{ secrets: { A: "x" } }, { secrets: [] }],
    confirmation_policy: [
      { policy: { kind: "NeverConfirm" } },
      { policy: { kind: "Maybe" } },
      { policy: null },
      {},
    ],
    security_analyzer: [
      { security_analyzer: null },
      {},
      { security_analyzer: {} },
      { security_analyzer: "x" },
    ],
    switch_llm: [
      { llm: { model: "openai/x" } },
      { llm: {} },
      { llm: { model: "" } },
      { llm: { model: 7 } },
      {},
    ],
    switch_profile: [{ profile_name: "fast" }, {}, { profile_name: "" }],
    switch_acp_model: [{ model: "x" }, {}],
    load_plugin: [
      { plugin_ref: "github:a/b" },
      {},
      { plugin_ref: "" },
      { plugin_ref: "../etc" },
      { plugin_ref: "http://x/../y" },
    ],
  };
  for (const [path, [good, ...bad]] of Object.entries(changes)) {
    for (const unknown of [foreign.id, newId(), "no-id"])
      expect([path, unknown, (await post(unknown, path, good)).status]).toEqual([path, unknown, 404]);
    for (const body of [...bad, "[]", "null", "{", undefined])
      expect([path, body, (await post(id, path, body)).status]).toEqual([path, body, 422]);
  }
  expect(await post(id, "load_plugin", { plugin_ref: "shine@nowhere" })).toMatchObject({
    status: 404,
    body: { detail: expect.stringMatching(/nowhere/) },
  });
});
