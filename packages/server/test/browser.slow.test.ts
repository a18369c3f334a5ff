import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "./support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

/** An agent that uses the browser in its sandbox, on a site served in that sandbox. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

const page = "<title>Shop</title><h1>Shop</h1><button onclick=\\\"document.title='Bought'\\\">Buy</button>";
const calls = [
  terminal(
    `mkdir -p /tmp/site && cd /tmp/site && echo "${page}" >index.html && (python3 -m http.server 8000 >/dev/null 2>&1 &) && until curl -s localhost:8000 >/dev/null; do sleep 0.1; done`,
  ),
  { name: "browser_navigate", arguments: { url: "localhost:8000" } },
  { name: "browser_get_state", arguments: { include_screenshot: true } },
  { name: "browser_click", arguments: { index: 0 } },
];

beforeAll(async () => {
  models = await startModelServer(({ messages }) => {
    const done = messages.filter(({ role }) => role === "tool").length;
    if (done > calls.length)
      return done === calls.length + 1
        ? reply.toolCalls([{ name: "browser_list_tabs", arguments: {} }])
        : finish("Done.");
    const next = calls[done];
    return next ? reply.toolCalls([next]) : finish("Done.");
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

async function say(id: string, text: string): Promise<void> {
  const body = { role: "user", content: [{ type: "text", text }], run: true };
  expect((await agent.call("POST", `/api/conversations/${id}/events`, body)).status).toBe(200);
  await until(
    async () =>
      (await agent.call("GET", `/api/conversations/${id}`)).body.execution_status === "finished" || undefined,
  );
}
async function results(id: string): Promise<Json[]> {
  const { body } = await agent.call(
    "GET",
    `/api/conversations/${id}/events/search?kind=ObservationEvent&limit=100`,
  );
  return body.items.map(({ observation }: Json) => observation);
}

test("the agent browses, sees screenshots, and keeps its page when its sandbox is paused", async () => {
  const request = sdkRequest(models.url);
  request.agent.tools = [{ name: "terminal" }, { name: "browser_tool_set", params: {} }];
  request.agent.filter_tools_regex = "^(?!.*storage)";
  const { body: conversation } = await agent.call("POST", "/api/conversations", request);
  await say(conversation.id, "Buy something.");
  const seen = await results(conversation.id);
  expect(seen.map(({ kind }) => kind)).toEqual([
    "TerminalObservation",
    ...Array(3).fill("BrowserObservation"),
    "FinishObservation",
  ]);
  expect(seen[1]!.content[0].text).toContain('shows http://localhost:8000/, titled "Shop".');
  expect(JSON.parse(seen[2]!.content[0].text).interactive_elements).toEqual([
    { index: 0, tag: "button", text: "Buy" },
  ]);
  expect(Buffer.from(seen[2]!.screenshot_data, "base64").subarray(1, 4).toString()).toBe("PNG");
  expect(seen[3]!.content[0].text).toContain('titled "Bought"');
  const [first] = models.requests;
  expect(first!.tools).toEqual(
    expect.arrayContaining(["browser_navigate", "browser_click", "finish", "think"]),
  );
  expect(first!.tools).not.toContain("browser_get_storage");
  expect(JSON.stringify(models.requests.at(-1)!.body)).toContain("data:image/png;base64,");

  await platform.call("POST", `/api/v1/sandboxes/${agent.sandboxId}/pause`);
  await say(conversation.id, "Look again.");
  expect((await results(conversation.id)).at(-2)!.content[0].text).toContain("Bought");

  const browsers = async () =>
    Number(
      (await agent.call("POST", "/api/bash/execute_bash_command", { command: "pgrep -c chromium" })).body
        .stdout,
    );
  expect(await browsers()).toBeGreaterThan(0);
  await agent.call("DELETE", `/api/conversations/${conversation.id}`);
  await until(async () => (await browsers()) === 0 || undefined);
});
