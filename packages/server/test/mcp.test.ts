import { afterAll, beforeAll, expect, test } from "vitest";
import { type ModelServer, type Reply, reply, type Script, startModelServer } from "./support/model-server.ts";
import { type Json, startConversation, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
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
  const stored = await server.call("POST", "/api/v1/settings", { agent_settings_diff: { llm, mcp_config: servers } });
  expect(stored.status, JSON.stringify(stored.body)).toBe(200);
}

const call = (name: string, args: object = {}): Reply =>
  reply.toolCalls([{ name, arguments: { security_risk: "LOW", ...args } }]);

async function ended(id: string, status = "finished"): Promise<Json[]> {
  await until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    if (found.execution_status === "error" && status !== "error") throw new Error(JSON.stringify(await events(id)));
    return found.execution_status === status;
  });
  return events(id);
}

async function events(id: string): Promise<Json[]> {
  return (await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;
}

const results = (all: Json[]) => all.filter(({ kind }) => kind === "ObservationEvent" || kind === "AgentErrorEvent");
const textOf = (event: Json) => event.error ?? event.observation.content.map(({ text }: Json) => text ?? "").join("\n");
const notes = (all: Json[]) =>
  all
    .filter(({ kind, source }) => kind === "MessageEvent" && source === "environment")
    .map(({ llm_message }) => llm_message.content[0].text);

test("tools of a server in the sandbox are listed, called, shown as images, and change", async () => {
  await use({ local: stdioMcp() }, [call("echo", { text: "hello from inside" }), call("image"), call("grow"), call("grown")]);
  const { id } = await startConversation(server.call, "Use the tools");
  const all = await ended(id);
  const listed = all[0]!.tools.find(({ title }: Json) => title === "echo");
  expect(listed).toMatchObject({
    kind: "MCPToolDefinition",
    action_type: "MCPToolAction",
    mcp_tool: { name: "echo", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } },
  });
  expect(all.find(({ kind }) => kind === "ActionEvent")).toMatchObject({
    tool_name: "echo",
    action: { kind: "MCPToolAction", data: { text: "hello from inside" } },
  });
  const [echo, image, grow, grown] = results(all);
  expect(echo!.observation).toMatchObject({ kind: "MCPToolObservation", tool_name: "echo", is_error: false });
  expect(textOf(echo!)).toBe("[The tool echo was run.]\nhello from inside");
  // What it says to be a JPEG is a PNG, and what it says to be a PNG is nothing.
  expect(image!.observation.content[1].image_urls[0]).toMatch(/^data:image\/png;base64,iVBORw0/);
  expect(image!.observation.content[2].text).toContain("cannot be shown");
  expect(textOf(grow!)).toContain("grown");
  expect(textOf(grown!)).toContain("called grown");
  const offered = models.requests.slice(first).map(({ tools }) => tools);
  expect(offered[0]).toEqual(expect.arrayContaining(["terminal", "finish", "echo", "flood"]));
  expect(offered[3]).toContain("grown");
  expect(offered[3]).not.toContain("flood");
  const parameters = models.requests[first]!.body.tools.find(({ function: f }: Json) => f.name === "echo").function.parameters;
  expect(Object.keys(parameters.properties)).toEqual(["security_risk", "summary", "text"]);
});
