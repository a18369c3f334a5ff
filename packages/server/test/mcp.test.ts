import { startRemoteMcp } from "@sandpiper/agent/test/support/remote-mcp";
import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish } from "./support/script.ts";
import { stdioMcp } from "./support/stdio-mcp.ts";

/** Agents that use MCP servers: commands inside of their sandboxes, over a whole platform. */

let server: TestPlatform;
let models: ModelServer;
let script: Script;
let first = 0;

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform({ outboundPrivate: ["127.0.0.0/8"] });
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

/** Stores MCP servers and a scripted model, whose last reply ends the run. */
async function use(servers: Json, replies: Reply[]): Promise<void> {
  first = models.requests.length;
  script = ({ index }) => replies[index - first] ?? finish("Done.");
  const llm = { model: "openai/scripted", api_key: "sk-test-key", base_url: models.url };
  const stored = await server.call("POST", "/api/v1/settings", {
    agent_settings_diff: { llm, mcp_config: servers },
  });
  expect(stored.status, JSON.stringify(stored.body)).toBe(200);
}

const call = (name: string, args: object = {}): Reply =>
  reply.toolCalls([{ name, arguments: { security_risk: "LOW", ...args } }]);

async function waitForEnd(id: string, status = "finished"): Promise<Json[]> {
  await until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    if (found.execution_status === "error" && status !== "error")
      throw new Error(JSON.stringify(await events(id)));
    return found.execution_status === status;
  });
  return events(id);
}

async function events(id: string): Promise<Json[]> {
  return (await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;
}

const results = (all: Json[]) =>
  all.filter(({ kind }) => kind === "ObservationEvent" || kind === "AgentErrorEvent");
const textOf = (event: Json) =>
  event.error ?? event.observation.content.map(({ text }: Json) => text ?? "").join("\n");
const notes = (all: Json[]) =>
  all
    .filter(({ kind, source }) => kind === "MessageEvent" && source === "environment")
    .map(({ llm_message }) => llm_message.content[0].text);

test("tools of a server in the sandbox are listed, called, shown as images, and change", async () => {
  await use({ local: stdioMcp() }, [
    call("echo", { text: "hello from inside" }),
    call("image"),
    call("grow"),
    call("grown"),
  ]);
  const { id } = await startConversation(server.call, "Use the tools");
  const all = await waitForEnd(id);
  const listed = all[0]!.tools.find(({ title }: Json) => title === "echo");
  expect(listed).toMatchObject({
    kind: "MCPToolDefinition",
    action_type: "MCPToolAction",
    mcp_tool: {
      name: "echo",
      inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    },
  });
  expect(all.find(({ kind }) => kind === "ActionEvent")).toMatchObject({
    tool_name: "echo",
    action: { kind: "MCPToolAction", data: { text: "hello from inside" } },
  });
  const [echo, image, grow, grown] = results(all);
  expect(echo!.observation).toMatchObject({ kind: "MCPToolObservation", tool_name: "echo", is_error: false });
  expect(textOf(echo!)).toBe("[The tool echo was run.]\nhello from inside");
  // The declared JPEG is a PNG, and the declared PNG is not an image.
  expect(image!.observation.content[1].image_urls[0]).toMatch(/^data:image\/png;base64,iVBORw0/);
  expect(image!.observation.content[2].text).toContain("cannot be shown");
  expect(textOf(grow!)).toContain("grown");
  expect(textOf(grown!)).toContain("called grown");
  const offered = models.requests.slice(first).map(({ tools }) => tools);
  expect(offered[0]).toEqual(expect.arrayContaining(["terminal", "finish", "echo", "flood"]));
  expect(offered[3]).toContain("grown");
  expect(offered[3]).not.toContain("flood");
  const parameters = models.requests[first]!.body.tools.find(({ function: f }: Json) => f.name === "echo")
    .function.parameters;
  expect(Object.keys(parameters.properties)).toEqual(["security_risk", "summary", "text"]);
});

test("a call lasts while the server reports progress and times out without progress", async () => {
  await use({ local: stdioMcp({ timeout: 0.6 }) }, [
    reply.text("Ready."),
    call("slow", { steps: 6 }),
    call("slow", { steps: 0 }),
    call("hang"),
    call("echo", { text: "on" }),
  ]);
  const { id } = await startConversation(server.call, "Hello");
  await waitForEnd(id);
  const socket = SocketClient.forConversation(server, id);
  await socket.frame(({ key }) => key === "full_state");
  const message = { role: "user", content: [{ type: "text", text: "Be patient" }], run: true };
  await server.call("POST", `/api/conversations/${id}/events`, message);
  await socket.status("finished");
  const notices = socket.frames.filter(({ key, value }) => key === "agent_state" && value.tool_progress);
  const result = socket.frames.findIndex(({ kind, action_id }) => kind === "ObservationEvent" && action_id);
  expect(notices.length).toBeGreaterThanOrEqual(2);
  // Six steps in 1.5 s.
  expect(notices.length).toBeLessThanOrEqual(4);
  expect(notices.every((frame) => socket.frames.indexOf(frame) < result)).toBe(true);
  expect(notices[0]!.value.tool_progress).toMatchObject({ tool_name: "slow", progress: 0, total: 6 });
  expect(notices[0]!.value.tool_progress.message).toMatch(/^step 0x{400,493}/);
  expect(notices[0]!.value.tool_progress.message).toHaveLength(500);
  socket.close();
  const [slow, quick, hang, echo] = results(await waitForEnd(id));
  expect(textOf(slow!)).toContain("slow but done");
  expect(textOf(quick!)).toContain("slow but done");
  expect(textOf(hang!)).toMatch(
    /^The MCP server local failed: It said nothing for 1 s\. What the call did is unknown\./,
  );
  expect(textOf(echo!)).toContain("on");
});

test("a server that answers nonsense, dies or floods fails the call with an error and is available for the next call", async () => {
  await use({ local: stdioMcp() }, [
    call("nonsense"),
    call("die"),
    call("echo", { text: "risen" }),
    call("flood"),
    call("echo", { text: "again" }),
  ]);
  const { id } = await startConversation(server.call, "Do what breaks");
  const [nonsense, died, risen, flooded, again] = results(await waitForEnd(id));
  expect(textOf(nonsense!)).toBe(
    "The MCP server local failed: It answered what the protocol does not allow. What the call did is unknown.",
  );
  expect(died!.observation).toMatchObject({ kind: "MCPToolObservation", tool_name: "die", is_error: true });
  expect(textOf(died!)).toMatch(
    /The MCP server local failed: Its process ended with exit code 3; it wrote: out of cheese\. What the call did is unknown/,
  );
  expect(textOf(risen!)).toContain("risen");
  expect(textOf(flooded!)).toMatch(/It sent a message of more than 8 MB, so it was ended\./);
  expect(textOf(again!)).toContain("again");
});

test("requests from a server to the client are refused, and the server's self-description is ignored", async () => {
  await use({ local: stdioMcp() }, [
    call("ask"),
    call("terminal", { command: "echo real" }),
    call("local_terminal"),
    call("local_security"),
  ]);
  const { id } = await startConversation(server.call, "Ask");
  const all = await waitForEnd(id);
  const [asked, terminal, other, security] = results(all);
  expect(textOf(asked!)).toContain("Method not found, Method not found, Method not found");
  expect(terminal!.observation.kind).toBe("TerminalObservation");
  expect(textOf(other!)).toContain("called terminal");
  expect(textOf(security!)).toContain("known tools");
  const liar = models.requests[first]!.body.tools.find(({ function: f }: Json) => f.name === "liar").function;
  // The server's own risk field is dropped, and a tool that claims to be read-only still has one.
  expect(liar.parameters.properties.security_risk.enum).toContain("HIGH");
  expect(JSON.stringify(liar).length).toBeLessThan(60_000);
});

test("secrets enter the sandbox only as placeholders, also secrets typed into the configuration", async () => {
  const value = "planted-secret-of-the-user";
  expect((await server.call("POST", "/api/secrets", { name: "DEPLOY_KEY", value })).status).toBe(201);
  const local = stdioMcp({
    args: ["--key=${DEPLOY_KEY}", "--also=${NO_SUCH_NAME:-otherwise}"],
    env: { BY_NAME: "$DEPLOY_KEY", TYPED: `key ${value}`, LEVEL: "debug", MY_TOKEN: "typed-token-1234" },
  });
  await use(
    { local },
    ["BY_NAME", "TYPED", "LEVEL", "MY_TOKEN"].map((name) => call("env", { name })),
  );
  const { id } = await startConversation(server.call, "Tell");
  const all = await waitForEnd(id);
  const [byName, typed, level, token] = results(all).map(textOf);
  const placeholder = /\nsandpiper_[0-9a-f]{40} --key=sandpiper_[0-9a-f]{40} --also=otherwise$/;
  expect(byName).toMatch(placeholder);
  expect(typed).toMatch(/\nkey sandpiper_[0-9a-f]{40} /);
  expect(level).toContain("\ndebug ");
  // The value is configured for this process, which receives it; the model reads it masked.
  expect(token).toContain("\n<secret-hidden> ");
  expect(JSON.stringify(all)).not.toContain(value);
  expect(JSON.stringify(models.requests.slice(first).map(({ body }) => body))).not.toContain(value);
  expect((await server.call("DELETE", "/api/secrets/DEPLOY_KEY")).status).toBe(200);
});

test("an unusable server is reported once, and the run continues without it", async () => {
  const dead = { command: "no-such-program-here" };
  const nameless = { command: "true", env: { KEY: "${NOBODY_KNOWS_THIS}" } };
  await use({ dead, nameless, off: { ...stdioMcp(), enabled: false }, local: stdioMcp() }, [
    call("echo", { text: "works" }),
    finish("One"),
    finish("Two"),
  ]);
  const { id } = await startConversation(server.call, "Go on");
  const all = await waitForEnd(id);
  expect(textOf(results(all)[0]!)).toContain("works");
  const notices = notes(all);
  expect(notices).toHaveLength(2);
  expect(notices[0]).toMatch(
    /^The MCP server dead cannot be reached, so its tools cannot be used: Its process ended with exit code 127; it wrote: .*no-such-program-here/,
  );
  expect(notices[1]).toMatch(/nameless cannot be started: its configuration names \$\{NOBODY_KNOWS_THIS\}/);
  const read = models.requests[first]!.messages.map(({ text }) => text).join("\n");
  expect(read).toContain("The MCP server dead");
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "More" }],
    run: true,
  });
  await until(async () => results(await events(id)).length >= 3);
  expect(notes(await waitForEnd(id))).toHaveLength(2);
});

test("servers stay between runs, and end with their conversation", async () => {
  await use({ local: stdioMcp(), brief: stdioMcp({ keep_alive: false }) }, [
    call("brief_echo", { text: "two of them" }),
  ]);
  const { id, sandboxId } = await startConversation(server.call, "Stay");
  await waitForEnd(id);
  const sandbox = await server.platform.sandboxes.running(sandboxId);
  const count = async () => {
    const process = await sandbox.exec({
      argv: ["sh", "-c", "grep -l 'tools/lis[t]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l"],
      cwd: "/",
    });
    let text = "";
    for await (const chunk of process.stdout) text += chunk;
    return Number(text);
  };
  await until(async () => (await count()) === 1);
  const [{ session_api_key: key }] = (await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body;
  const removed = await server.call("DELETE", `/api/conversations/${id}`, undefined, {
    "X-Session-API-Key": key,
  });
  expect(removed.status).toBe(200);
  await until(async () => (await count()) === 0);
});

test("a client's agent has its own servers, with tools filtered by its regular expression, and none of the user's", async () => {
  await use({ theirs: stdioMcp() }, [call("echo", { text: "own" }), finish("Done.")]);
  const { id: sandboxId } = (await server.call("POST", "/api/v1/sandboxes")).body;
  const sandbox = await until(async () => {
    const [found] = (await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body;
    return found.status === "RUNNING" ? found : undefined;
  });
  const agent = {
    kind: "Agent",
    llm: { model: "openai/scripted", api_key: "sk-test-key", base_url: models.url },
    tools: [{ name: "terminal" }],
    filter_tools_regex: "terminal|finish|echo|env",
    mcp_config: { mcpServers: { own: stdioMcp() } },
  };
  const { body } = await server.call(
    "POST",
    "/api/conversations",
    {
      agent,
      workspace: { working_dir: "/workspace/project" },
      initial_message: { content: [{ type: "text", text: "Go" }], run: true },
    },
    { "X-Session-API-Key": sandbox.session_api_key },
  );
  const all = await waitForEnd(body.id);
  expect(textOf(results(all)[0]!)).toContain("own");
  expect(models.requests[first]!.tools.sort()).toEqual(["echo", "env", "finish", "terminal"]);
});

test("a remote server of V0's lists is used with its key, and tested with the values of its secrets", async () => {
  const remote = await startRemoteMcp();
  try {
    expect(
      (await server.call("POST", "/api/secrets", { name: "REMOTE_KEY", value: "planted-remote-key" })).status,
    ).toBe(201);
    await use({}, [call("greet", { who: "V0" }), finish("Done.")]);
    const lists = {
      sse_servers: [],
      stdio_servers: [],
      shttp_servers: [{ url: remote.url, api_key: "${REMOTE_KEY}" }],
    };
    expect((await server.call("POST", "/api/settings", { mcp_config: lists })).status).toBe(200);
    const tested = await server.call("POST", "/api/v1/settings/mcp/127-0-0-1/test");
    expect(tested.body).toMatchObject({ ok: true, tools: expect.arrayContaining(["greet"]) });
    const { id } = await startConversation(server.call, "Greet");
    const all = await waitForEnd(id);
    expect(textOf(results(all)[0]!)).toBe(
      '[The tool greet was run.]\ngreet {"who":"V0"} Bearer <secret-hidden>',
    );
    expect(remote.seen.at(-1)?.authorization).toBe("Bearer planted-remote-key");
    expect((await server.call("DELETE", "/api/secrets/REMOTE_KEY")).status).toBe(200);
  } finally {
    await remote.close();
  }
});

test("a stopped sandbox is started again for the next call", async () => {
  await use({ local: stdioMcp() }, [finish("One"), call("echo", { text: "back again" }), finish("Two")]);
  const { id, sandboxId } = await startConversation(server.call, "Start");
  await waitForEnd(id);
  const snapshot = await server.call("POST", `/api/v1/sandboxes/${sandboxId}/snapshots`);
  expect(snapshot.status).toBe(201);
  expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`)).status).toBe(200);
  const message = { role: "user", content: [{ type: "text", text: "Go on" }], run: true };
  expect((await server.call("POST", `/api/conversations/${id}/events`, message)).status).toBeLessThan(300);
  await until(async () => results(await events(id)).length >= 3);
  expect(textOf(results(await waitForEnd(id))[1]!)).toContain("back again");
});

test("servers of skills are added when the skill is in the prompt, triggered by a message, or read by the agent", async () => {
  const skill = (name: string, more: string, server: string) =>
    `mkdir -p .agents/skills/${name} && cat >.agents/skills/${name}${more.includes("folder") ? "/SKILL" : ""}.md <<'END'\n---\n${more}\nmcp_tools:\n  mcpServers:\n    ${name}: ${server}\n---\nText.\nEND`;
  const named = (tool: string) => `{command: python3, args: [small.py, ${tool}]}`;
  await use({}, [
    call("terminal", { command: `cat >small.py <<'END'\n${smallServer}\nEND` }),
    call("terminal", { command: skill("always", "description: one", named("first_tool")) }),
    call("terminal", { command: skill("word", "triggers: [pumpkin]", named("second_tool")) }),
    call("terminal", { command: skill("read", "description: of a folder", named("third_tool")) }),
    call("terminal", { command: skill("broken", "description: a folder too", "{command: /none/at/all}") }),
  ]);
  const made = await startConversation(server.call, "Make the skills");
  await waitForEnd(made.id);
  await use({}, [
    finish("Hello."),
    call("invoke_skill", { name: "read" }),
    call("third_tool"),
    call("invoke_skill", { name: "broken" }),
    call("third_tool"),
  ]);
  const { id } = await startConversation(server.call, "Say hello", { sandbox_id: made.sandboxId });
  await waitForEnd(id);
  const offered = () =>
    models.requests.slice(first).map(({ tools }) => tools.filter((name) => name.endsWith("_tool")));
  expect(offered()).toEqual([["first_tool"]]);
  const content = [{ type: "text", text: "Take the pumpkin" }];
  await server.call("POST", `/api/conversations/${id}/events`, { role: "user", content, run: true });
  await until(() => offered().length === 6 || undefined);
  const all = await waitForEnd(id);
  const both = ["first_tool", "second_tool"];
  const three = [...both, "third_tool"].sort();
  expect(offered().map((names) => names.sort())).toEqual([["first_tool"], both, three, three, three, three]);
  const [, read, called, broken, again] = results(all).map(textOf);
  expect(read).toBe(
    `Text.\n\nThis skill lies in ${workspace}/.agents/skills/read: the paths of files that it names are relative to that directory.`,
  );
  expect(called).toContain("ran third_tool");
  expect(broken).toMatch(/Text\.\n\nThe MCP server broken cannot be reached/);
  expect(again).toContain("ran third_tool");
});

const workspace = "/workspace/project";

/** Has one tool, named by its argument. */
const smallServer = `import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"initialize": lambda: {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}},
        "tools/list": lambda: {"tools": [{"name": sys.argv[1], "inputSchema": {"type": "object"}}]},
        "tools/call": lambda: {"content": [{"type": "text", "text": "ran " + sys.argv[1]}]}}.get(m["method"], dict)()
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)`;
