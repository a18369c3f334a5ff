import { createHash, randomBytes } from "node:crypto";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import WebSocket from "ws";
import { sdkRequest } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { httpx, RawHttp } from "../support/raw-http.ts";
import { obey } from "../support/script.ts";

/**
 * The Python SDK's remote client calls, in order and byte for byte (remote-clients.md sections 2 to
 * 6 and 9).
 */

let platform: TestPlatform;
let models: ModelServer;
/** A workspace of the SDK: the agent server of one sandbox, by its address and session key. */
let workspace: { http: RawHttp; url: string; key: string; sandboxId: string };
let hold: Promise<void> = Promise.resolve();

beforeAll(async () => {
  models = await startModelServer(async (request) => {
    await hold;
    const last = request.messages.at(-1)!;
    if (last.text.includes("Say ")) return reply.text("It says so.");
    return obey(request);
  });
  platform = await startTestPlatform();
  workspace = await openWorkspace();
});
afterAll(async () => {
  workspace?.http.close();
  await platform?.stop();
  await models?.close();
});

/** Section 9: a sandbox from the app server, polled until it and its agent server run. */
async function openWorkspace() {
  const app = new RawHttp(platform.url, httpx());
  const bearer = { Authorization: `Bearer ${platform.key}` };
  const started = (await app.post("/api/v1/sandboxes", undefined, bearer)).json;
  const info = await until(async () => {
    const { json } = await app.get(`/api/v1/sandboxes?id=${started.id}`, bearer);
    return json[0].status === "RUNNING" ? json[0] : undefined;
  });
  app.close();
  const { url } = info.exposed_urls.find(({ name }: Json) => name === "AGENT_SERVER");
  const http = new RawHttp(url, httpx(info.session_api_key));
  expect(await http.get("/health")).toMatchObject({ status: 200, json: { status: "ok" } });
  return { http, url, key: info.session_api_key, sandboxId: started.id };
}

/** The event socket as the client opens it: no query, the key in the first frame (section 5). */
class EventClient {
  readonly frames: Json[] = [];
  readonly closed: Promise<number>;
  readonly #socket: WebSocket;
  #wake = () => {};

  constructor(id: string, key = workspace.key) {
    this.#socket = new WebSocket(`${workspace.url.replace("http", "ws")}/sockets/events/${id}`, {
      headers: { "User-Agent": "Python/3.12 websockets/15.0.1" },
      perMessageDeflate: { clientMaxWindowBits: 12 },
      maxPayload: 2 ** 20,
    });
    this.closed = new Promise((resolve) => this.#socket.once("close", resolve));
    this.#socket.on("error", () => {});
    this.#socket.once("open", () =>
      this.#socket.send(JSON.stringify({ type: "auth", session_api_key: key })),
    );
    this.#socket.on("message", (data) => {
      this.frames.push({ ...JSON.parse(String(data)), receivedAt: performance.now() });
      this.#wake();
    });
  }

  /** The first frame from `after` on that fits. */
  async next(fits: (frame: Json) => boolean, after = 0): Promise<Json> {
    for (;;) {
      const found = this.frames.slice(after).find(fits);
      if (found) return found;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  close(): void {
    this.#socket.close();
  }
}

const isFullState = ({ key }: Json) => key === "full_state";

/** Section 2: the requests of RemoteConversation's constructor. */
async function openConversation(
  change: Json = {},
): Promise<{ id: string; base: string; socket: EventClient; agent: Json }> {
  const { http } = workspace;
  const made = await http.post("/api/conversations", sdkRequest(models.url, change));
  expect([200, 201]).toContain(made.status);
  const { id } = made.json;
  expect(id).toMatch(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  const base = `/api/conversations/${id}`;
  await allEvents(base);
  const socket = new EventClient(id);
  const ready = await socket.next(({ kind }) => kind === "ConversationStateUpdateEvent");
  expect(ready).toMatchObject({ key: "full_state", value: { id, execution_status: expect.any(String) } });
  await allEvents(base);
  return { id, base, socket, agent: made.json.agent };
}

async function allEvents(base: string): Promise<Json[]> {
  const events: Json[] = [];
  for (let page = ""; ; ) {
    const { status, json } = await workspace.http.get(`${base}/events/search?limit=100${page}`);
    expect(status).toBe(200);
    events.push(...json.items);
    if (json.next_page_id === null) return events;
    page = `&page_id=${json.next_page_id}`;
  }
}

const say = (base: string, text: string) =>
  workspace.http.post(`${base}/events`, {
    role: "user",
    content: [{ cache_prompt: false, type: "text", text }],
    run: false,
  });

/** Section 4: `run()` waits for a full state after its response that is not running. */
async function run(base: string, socket: EventClient): Promise<Json> {
  const { status } = await workspace.http.post(`${base}/run`);
  expect([200, 201, 204, 409]).toContain(status);
  const armed = socket.frames.length;
  const end = await socket.next(
    (frame) => isFullState(frame) && frame.value.execution_status !== "running",
    armed,
  );
  return end.value;
}

test("a conversation is created, followed and run, and its events are listed; the final state follows the run call's response", async () => {
  const { base, socket, agent } = await openConversation();
  expect(agent).toMatchObject({
    kind: "Agent",
    llm: { api_key: "**********", base_url: models.url },
    condenser: null,
  });
  for (const text of ["run: echo one > one.txt", "Say one", "Say two", "Say three", "Say four"]) {
    expect((await say(base, text)).json).toEqual({ success: true });
    expect(await run(base, socket)).toMatchObject({
      execution_status: "finished",
      agent: { kind: "Agent" },
      persistence_dir: expect.any(String),
    });
  }
  const events = await allEvents(base);
  expect(events.filter(({ source, kind }) => kind === "MessageEvent" && source === "user")).toHaveLength(5);
  const live = socket.frames.filter(
    ({ kind }) => !["ConversationStateUpdateEvent", "StreamingDeltaEvent"].includes(kind),
  );
  expect(live.map(({ id }) => id)).toEqual(events.map(({ id }) => id));
  expect((await workspace.http.get(base)).json).toMatchObject({
    execution_status: "finished",
    stats: { usage_to_metrics: {} },
  });
  socket.close();
});

test("attaching to a conversation reads it first and then works as for a new one", async () => {
  const { id, socket } = await openConversation();
  socket.close();
  const unknown = `${id.slice(0, -4)}0000`;
  expect((await workspace.http.get(`/api/conversations/${unknown}`)).status).toBe(404);
  const known = await workspace.http.get(`/api/conversations/${id}`);
  expect(known).toMatchObject({
    status: 200,
    json: { id, agent: { kind: "Agent", llm: { model: "openai/scripted" } } },
  });
  const again = await openConversation({
    conversation_id: id,
    agent: { ...sdkRequest(models.url).agent, ...known.json.agent },
  });
  expect(again.id).toBe(id);
  again.socket.close();
});

test("pause, interrupt, confirmation and rejection end the client's wait with a full state", async () => {
  const { base, socket } = await openConversation();
  const { http } = workspace;
  expect(
    (await http.post(`${base}/confirmation_policy`, { policy: { kind: "AlwaysConfirm" } })).json,
  ).toEqual({ success: true });
  expect(
    (await http.post(`${base}/security_analyzer`, { security_analyzer: { kind: "LLMSecurityAnalyzer" } }))
      .status,
  ).toBe(200);
  await say(base, "run: echo approved");
  expect(await run(base, socket)).toMatchObject({
    execution_status: "waiting_for_confirmation",
    confirmation_policy: { kind: "AlwaysConfirm" },
  });
  expect(await run(base, socket)).toMatchObject({ execution_status: "finished" });
  await say(base, "run: echo refused");
  expect((await run(base, socket)).execution_status).toBe("waiting_for_confirmation");
  const refusal = { accept: false, reason: "Not this one" };
  expect((await http.post(`${base}/events/respond_to_confirmation`, refusal)).json).toEqual({
    success: true,
  });
  expect((await allEvents(base)).at(-1)).toMatchObject({
    kind: "UserRejectObservation",
    rejection_reason: "Not this one",
  });
  expect((await http.get(base)).json.execution_status).toBe("idle");

  await http.post(`${base}/confirmation_policy`, { policy: { kind: "NeverConfirm" } });
  await say(base, "run: sleep 60");
  await http.post(`${base}/run`);
  const seen = socket.frames.length;
  await socket.next(({ kind, action }) => kind === "ActionEvent" && action?.command === "sleep 60");
  expect((await http.post(`${base}/interrupt`)).json).toEqual({ success: true });
  const paused = await socket.next(
    (frame) => isFullState(frame) && frame.value.execution_status === "paused",
    seen,
  );
  expect(paused).toBeDefined();
  expect((await allEvents(base)).slice(-2).map(({ kind }) => kind)).toEqual([
    "AgentErrorEvent",
    "InterruptEvent",
  ]);

  let release = () => {};
  hold = new Promise((resolve) => {
    release = resolve;
  });
  await http.post(`${base}/run`);
  expect((await http.post(`${base}/run`)).status).toBe(409);
  expect((await http.post(`${base}/pause`)).json).toEqual({ success: true });
  const asked = socket.frames.length;
  expect(socket.frames.findLast(isFullState)!.value.execution_status).toBe("paused");
  release();
  // The step that runs during the pause ends the turn.
  await socket.next((frame) => isFullState(frame) && frame.value.execution_status === "finished", asked);
  expect((await allEvents(base)).some(({ kind }) => kind === "PauseEvent")).toBe(true);
  socket.close();
});

test("a failing run is reported over the socket and over REST, and its reason is in the events", async () => {
  const llm = { ...sdkRequest(models.url).agent.llm, model: "openai/x", base_url: "http://127.0.0.1:1" };
  const { base, socket } = await openConversation({
    agent: { ...sdkRequest(models.url).agent, llm: { ...llm, num_retries: 0 } },
  });
  await workspace.http.post(`${base}/switch_llm`, {
    llm: { ...llm, model: "no-such-provider/x", base_url: null },
  });
  await say(base, "Hello");
  await workspace.http.post(`${base}/run`);
  await socket.next(({ key, value }) => key === "execution_status" && value === "error");
  expect((await workspace.http.get(base)).json.execution_status).toBe("error");
  const [problem] = (await allEvents(base)).filter(({ kind }) => kind === "ConversationErrorEvent");
  expect(problem).toMatchObject({
    code: "ModelNotConfigured",
    detail: expect.stringContaining("no-such-provider/x"),
  });
  socket.close();
});

test("secrets, questions, summaries, forks and navigation work", async () => {
  const { base, socket } = await openConversation();
  const { http } = workspace;
  await say(base, "run: echo one");
  await run(base, socket);
  expect(
    (await http.post(`${base}/secrets`, { secrets: { BUILD_TOKEN: "planted-secret-value" } })).json,
  ).toEqual({
    success: true,
  });
  const lookup = {
    kind: "LookupSecret",
    url: `${workspace.url}/api/settings/secrets/NOT_THERE`,
    headers: { "X-Session-API-Key": workspace.key },
  };
  expect((await http.post(`${base}/secrets`, { secrets: { OTHER: lookup } })).status).toBeGreaterThanOrEqual(
    400,
  );
  expect((await http.post(`${base}/ask_agent`, { question: "Say it" })).json).toEqual({
    response: "It says so.",
  });
  const forked = await http.post(`${base}/fork`, { reset_metrics: true });
  expect(forked.status).toBe(201);
  expect((await http.get(`/api/conversations/${forked.json.id}`)).json).toMatchObject({
    id: forked.json.id,
    agent: { kind: "Agent" },
  });
  const events = await allEvents(base);
  const user = events.find(({ kind, source }) => kind === "MessageEvent" && source === "user")!;
  expect((await http.post(`${base}/navigate`, { event_id: user.id })).json).toMatchObject({
    leaf_event_id: user.id,
  });
  expect((await http.get(base)).json.leaf_event_id).toBe(user.id);
  expect(JSON.stringify([(await http.get(base)).json, await allEvents(base)])).not.toContain(
    "planted-secret-value",
  );
  expect((await http.delete(base)).json).toEqual({ success: true });
  expect((await http.get(base)).status).toBe(404);
  socket.close();
});

/** Section 6, execute_command: a start, then a poll every 100 ms for new output. */
async function execute(
  command: string,
  cwd?: string,
): Promise<{ exit_code: number; stdout: string; stderr: string }> {
  const { http } = workspace;
  const started = (
    await http.post("/api/bash/start_bash_command", { command, timeout: 30, ...(cwd && { cwd }) })
  ).json;
  const ids = new Set<string>();
  let [stdout, stderr, order] = ["", "", -1];
  for (;;) {
    const since = order < 0 ? "" : `&order__gt=${order}`;
    const query = `command_id__eq=${started.id}&sort_order=TIMESTAMP&limit=100&kind__eq=BashOutput${since}`;
    const { json } = await http.get(`/api/bash/bash_events/search?${query}`);
    for (const event of json.items) {
      expect(ids.has(event.id)).toBe(false);
      ids.add(event.id);
      order = Math.max(order, event.order);
      stdout += event.stdout ?? "";
      stderr += event.stderr ?? "";
      if (event.exit_code !== null) return { exit_code: event.exit_code, stdout, stderr };
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test("the workspace runs commands, transfers files and reads git", async () => {
  const { http } = workspace;
  expect((await http.get("/server_info")).json).toMatchObject({
    title: expect.any(String),
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
  });
  expect(await execute("echo out; echo err >&2; exit 3", "/workspace")).toEqual({
    exit_code: 3,
    stdout: "out\n",
    stderr: "err\n",
  });
  expect((await execute("seq 1 200000 | sha256sum")).stdout).toMatch(/^[0-9a-f]{64}/);
  const content = randomBytes(300_000);
  const path = "path=%2Fworkspace%2Fup%2Fdata.bin";
  expect((await http.upload(`/api/file/upload?${path}`, "data.bin", content)).json).toEqual({
    success: true,
    file_size: 300_000,
  });
  const down = await http.get(`/api/file/download?${path}`);
  expect(down.status).toBe(200);
  expect(createHash("sha256").update(down.body).digest("hex")).toBe(
    createHash("sha256").update(content).digest("hex"),
  );
  await execute(
    "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && echo x > new.txt",
    "/workspace",
  );
  const changes = await http.get("/api/git/changes?path=%2Fworkspace%2Fr");
  expect(changes.json).toEqual([{ status: "ADDED", path: "new.txt" }]);
  expect((await http.get("/api/git/diff?path=%2Fworkspace%2Fr%2Fnew.txt")).json).toEqual({
    original: null,
    modified: "x\n",
  });
});

test("a socket with a wrong key closes with 4001, a socket of an unknown conversation with 4004", async () => {
  const { id, socket } = await openConversation();
  expect(await new EventClient(id, "wrong").closed).toBe(4001);
  expect(await new EventClient(`${id.slice(0, -4)}0000`).closed).toBe(4004);
  socket.close();
});

test("the sandbox is deleted by its id in the query", async () => {
  const app = new RawHttp(platform.url, httpx());
  const { status } = await app.delete(
    `/api/v1/sandboxes/${workspace.sandboxId}?sandbox_id=${workspace.sandboxId}`,
    {
      Authorization: `Bearer ${platform.key}`,
    },
  );
  expect(status).toBe(200);
  expect((await workspace.http.get("/api/conversations/search")).status).toBe(401);
  app.close();
});
