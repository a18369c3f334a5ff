import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform } from "../support/platform.ts";

/**
 * What was measured of the reference (agent-server-1.58.md): statuses of section 7, and the defects
 * of section 11, which are answered better here.
 */

let platform: TestPlatform;
let agent: AgentServer;
let base: string;

beforeAll(async () => {
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
  base = await create();
});
afterAll(() => platform?.stop());

async function create(change: Json = {}): Promise<string> {
  const { status, body } = await post("/api/conversations", sdkRequest("http://127.0.0.1:1", change));
  expect(status).toBe(201);
  return `/api/conversations/${body.id}`;
}
const post = (path: string, body?: unknown) => agent.call("POST", path, body);
const run = async (command: string) =>
  (await post("/api/bash/execute_bash_command", { command })).body as Json;
async function upload(path: string): Promise<[number, string]> {
  const body = new FormData();
  body.append("file", new Blob(["x"]), "x");
  const headers = { "X-Session-API-Key": agent.key };
  const answer = await fetch(`${agent.url}/api/file/upload?path=${path}`, { method: "POST", headers, body });
  return [answer.status, await answer.text()];
}

test("bad requests get the statuses of the newest release", async () => {
  const unknown = "/api/conversations/00000000-0000-4000-8000-000000000000";
  const event = "00000000-0000-4000-8000-000000000001";
  const ids = Array.from({ length: 100 }, () => `ids=${event}`).join("&");
  const model = { role: "user", content: [{ type: "text", text: "x" }] };
  const rows: [status: number, method: string, path: string, body?: unknown][] = [
    [422, "GET", "/api/conversations/search?limit=101"],
    [422, "GET", `${base}/events/search?limit=101`],
    [422, "GET", "/api/bash/bash_events/search?limit=101"],
    [422, "GET", "/api/conversations/search?limit=0"],
    [422, "GET", `/api/conversations?${ids}`],
    [422, "GET", "/api/conversations?ids=x"],
    [404, "GET", `${base}/events/${event}`],
    [404, "GET", unknown],
    [404, "POST", `${unknown}/pause`],
    [404, "POST", `${unknown}/interrupt`],
    [404, "POST", `${unknown}/run`],
    [404, "DELETE", unknown],
    [404, "PATCH", unknown, { title: "x" }],
    [422, "PATCH", base, { title: " \n" }],
    [422, "PATCH", base, { title: "" }],
    [404, "POST", `${unknown}/ask_agent`, { question: "x" }],
    [404, "POST", `${unknown}/events`, model],
    [404, "POST", `${unknown}/condense`],
    [422, "POST", `${base}/events`, { ...model, role: "assistant" }],
    [422, "POST", `${base}/events`, {}],
    [404, "GET", `${base}/no-such-path`],
    [404, "POST", `${base}/no-such-path`, {}],
    // Paths of V0, for the keys of users.
    [404, "GET", `${base}/config`],
    [404, "POST", `${base}/start`, {}],
    [404, "GET", `${base}/trajectory`],
  ];
  for (const [status, method, path, body] of rows)
    expect([method, path, body, (await agent.call(method, path, body)).status]).toEqual([
      method,
      path,
      body,
      status,
    ]);
  const { body } = await agent.call("GET", `${base}/events?ids=${event}`);
  expect(body).toEqual([null]);
  expect((await agent.call("GET", `${base}/no-such-path`)).body).toEqual({ detail: "Not Found" });
  await run("mkdir -p /workspace/folder; touch /workspace/file");
  for (const path of ["/workspace/folder", "/workspace/file/below"])
    expect([path, (await upload(path))[0]]).toEqual([path, 400]);
});

test("facts for traces are taken from headers, and metadata must be a JSON object", async () => {
  const make = (metadata: string) =>
    agent.call("POST", "/api/conversations", sdkRequest("http://127.0.0.1:1"), {
      "X-OpenHands-Observability-Span-Name": "span",
      "X-OpenHands-Observability-Tags": "a,b",
      "X-OpenHands-Observability-Metadata": metadata,
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    });
  expect((await make('{"a": 1}')).status).toBe(201);
  for (const wrong of ["[]", "null", "text", "{"])
    expect([wrong, (await make(wrong)).status]).toEqual([wrong, 422]);
});

test("a message of another role and an empty message store nothing", async () => {
  const count = async () => (await agent.call("GET", `${base}/events/count`)).body;
  const before = await count();
  for (const body of [
    {},
    { role: "system", content: [{ type: "text", text: "x" }] },
    { role: "tool", content: [] },
  ])
    expect((await post(`${base}/events`, body)).status).toBe(422);
  expect(await count()).toBe(before);
});

test("a difference keeps the last line end, and a folder has no texts", async () => {
  const author = "-c user.name=A -c user.email=a@b.c";
  await run(
    `mkdir -p d && git init -q -b main . ; printf '1\\n\\n' > d/f && git add . && git ${author} commit -qm first && printf '2\\n\\n' > d/f`,
  );
  const diff = (path: string) => agent.call("GET", `/api/git/diff?path=/workspace/project/${path}`);
  expect((await diff("d/f")).body).toEqual({ original: "1\n\n", modified: "2\n\n" });
  expect((await diff("d")).body).toEqual({ original: null, modified: null });
});

test("client tools belong to one conversation", async () => {
  const tool = { name: "only_here", description: "x", parameters: { type: "object" } };
  const own = await create({ client_tools: [tool] });
  expect((await agent.call("GET", own)).body.client_tools).toMatchObject([tool]);
  expect((await agent.call("GET", base)).body.client_tools).toEqual([]);
  expect((await agent.call("GET", "/api/tools/")).body).not.toContain("only_here");
});

test("there is no editor, which is no failure", async () => {
  expect(await agent.call("GET", "/api/vscode/url")).toEqual({ status: 200, body: { url: null } });
  expect((await agent.call("GET", "/api/vscode/status")).body).toMatchObject({ enabled: false });
});

test("a worktree of a repository without a commit shares the folder", async () => {
  await run("mkdir -p /workspace/empty && git -C /workspace/empty init -q");
  const workspace = { kind: "LocalWorkspace", working_dir: "/workspace/empty" };
  const own = await create({ workspace, worktree: true });
  expect((await agent.call("GET", own)).body.workspace.working_dir).toBe("/workspace/empty");
});

test("the two switches that the newest release retired are still taken", async () => {
  const switches = { enable_sub_agents: true, enable_switch_llm_tool: false };
  const profile = { agent_kind: "openhands", llm_profile_ref: "default", ...switches };
  expect((await post("/api/agent-profiles/with-switches", profile)).status).toBe(201);
  const diff = { agent_settings_diff: switches };
  expect((await agent.call("PATCH", "/api/settings", diff)).status).toBe(200);
  const { agent: _, ...request } = sdkRequest("http://127.0.0.1:1");
  const agent_settings = { ...switches, llm: { model: "openai/scripted", base_url: "http://127.0.0.1:1" } };
  expect((await post("/api/conversations", { ...request, agent_settings })).status).toBe(201);
});

test("catalogues list tools and skills, and ACP agents have no models", async () => {
  const { tools } = (await agent.call("GET", "/api/tools/catalog")).body;
  const { usable_tools } = (await agent.call("GET", "/server_info")).body;
  expect(tools.map(({ name }: Json) => name)).toEqual(usable_tools);
  for (const tool of tools)
    expect(tool).toEqual({
      name: expect.any(String),
      user_selectable: true,
      usable: true,
      description: expect.stringMatching(/^.{10,500}$/),
      in_default_set: ["terminal", "file_editor", "task_tracker"].includes(tool.name),
    });
  await run(
    "mkdir -p ~/.openhands/skills && printf -- '---\\nname: mine\\ntriggers: [mine]\\n---\\nDo mine.' > ~/.openhands/skills/mine.md",
  );
  const { skills } = (await agent.call("GET", "/api/skills/catalog")).body;
  expect(skills).toMatchObject([{ name: "mine", type: "knowledge", triggers: ["mine"], origin: "user" }]);
  // A user's key without a sandbox sees no home folder.
  expect((await platform.call("GET", "/api/skills/catalog")).body).toEqual({ skills: [] });
  expect((await platform.call("GET", "/api/skills/catalog?sandbox_id=sbx-none")).status).toBe(404);
  const models = await post("/api/acp/models", { agent_settings: { agent_kind: "acp", acp_server: "x" } });
  expect(models).toMatchObject({
    status: 200,
    body: { available_models: [], error: { code: "unsupported" } },
  });
  expect((await post("/api/acp/models", {})).status).toBe(422);
});

test("what is not offered answers in the form that clients expect", async () => {
  const llm = "/api/llm/subscription/openai";
  const rows: [status: number, method: string, path: string, body?: unknown][] = [
    [200, "GET", `${llm}/status`],
    [200, "POST", `${llm}/logout`, {}],
    [400, "POST", `${llm}/device/start`, {}],
    [404, "POST", `${llm}/device/poll`, { device_code: "x" }],
    [200, "GET", "/api/desktop/url"],
    [405, "DELETE", `${base}/runtime`],
    [404, "POST", `${base}/runtime/credentials`, {}],
    [404, "PUT", `${base}/credential-bindings/X`, { url: "https://x.test" }],
    [204, "POST", "/api/conversations/prepare-for-sandbox-pause"],
    [404, "POST", `${base}/archive`, {}],
    [404, "GET", "/api/canvas-extensions/installed"],
    [404, "POST", "/app-backends/x/session", {}],
    [200, "GET", "/api/meta-profiles"],
    [400, "POST", "/api/meta-profiles/x", {}],
    [404, "GET", "/api/meta-profiles/x"],
    [404, "POST", "/api/meta-profiles/x/activate", {}],
    [200, "DELETE", "/api/meta-profiles/x"],
    [200, "GET", "/api/llm/provider-connections"],
    [400, "POST", "/api/llm/provider-connections", { display_name: "x" }],
    [404, "PATCH", "/api/llm/provider-connections/x", {}],
    [400, "POST", "/api/skills/install", { source: "x" }],
    [400, "POST", "/api/plugins/install", { source: "x" }],
    [422, "POST", "/api/plugins/fetch", { source: "x" }],
    [400, "POST", `${base}/switch_acp_model`, { model: "x" }],
    [404, "GET", "/api/llm/balance"],
    [404, "GET", "/api/shared-conversations?ids=x"],
    [404, "GET", "/api/init"],
  ];
  for (const [status, method, path, body] of rows)
    expect([method, path, (await agent.call(method, path, body)).status]).toEqual([method, path, status]);
});

test("an agent with a tool that nobody knows is refused at its creation", async () => {
  const request = sdkRequest("http://127.0.0.1:1");
  request.agent.tools.push({ name: "no_such_tool", params: {} });
  const { status, body } = await post("/api/conversations", request);
  expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining("no_such_tool")]);
});
