import type { ScriptedToolCall } from "@sandpiper/models/test/support/model-answer";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";
import { stdioMcp } from "./support/stdio-mcp.ts";

/** Unusable model answers become readable events on every wire, and the run continues. */

let server: TestPlatform;

beforeAll(async () => {
  server = await startTestPlatform();
});
afterAll(() => server?.stop());

/** The events of a run in which a model makes these calls at once, and the model's next input. */
async function answer(
  model: string,
  calls: ScriptedToolCall[],
  more: Json = {},
): Promise<{ events: Json[]; models: ModelServer }> {
  const models = await startModelServer(({ index }) =>
    index === 0 ? reply.toolCalls(calls, { deltaSize: 50_000 }) : finish("Done."),
  );
  const llm = { model, api_key: "sk-test-key", base_url: models.url };
  await server.call("POST", "/api/v1/settings", { agent_settings_diff: { llm, mcp_config: null, ...more } });
  const { id } = await startConversation(server.call, "Work");
  try {
    await until(async () => {
      const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
      return ["finished", "error", "stuck"].includes(found.execution_status);
    });
    return {
      events: (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items,
      models,
    };
  } finally {
    await models.close();
  }
}

const errorsOf = (events: Json[]): string[] =>
  events.flatMap(({ error }) => (typeof error === "string" ? [error] : []));

const names = ["openai/any", "openai/responses/any", "anthropic/any", "gemini/any", "bedrock/any"];

test.each(names)(
  "%s: broken and hostile calls get results, and valid calls in the same answer run",
  async (model) => {
    const deep = "[".repeat(20_000) + "]".repeat(20_000);
    const { events, models } = await answer(model, [
      { name: "terminal", arguments: `{"command": "${'\\n\\"'.repeat(50_000)}` },
      { name: "terminal", arguments: `{"command": ${deep}}` },
      { name: "n".repeat(300_000), arguments: {}, id: "i".repeat(1_000) },
      { name: "__proto__", arguments: {}, id: "same" },
      { name: "terminal", arguments: '{"command": "ls", "__proto__": {"x": 1}}', id: "same" },
      terminal("echo still here"),
    ]);
    const errors = errorsOf(events);
    expect(errors).toHaveLength(5);
    for (const error of errors) expect(error.length).toBeLessThan(500);
    expect(errors.join("\n")).toMatch(
      /nested too deep[\s\S]*Unknown tool 'nnn[\s\S]*Unknown tool '__proto__'/,
    );
    expect(JSON.stringify(events).length).toBeLessThan(1_500_000);
    const outputs = events.filter(({ observation }) => observation?.kind === "TerminalObservation");
    expect(outputs.map(({ observation }) => observation.content[0].text)).toEqual(["still here\n"]);
    const read = models.requests[1]!.messages.filter(({ role }) => role === "tool");
    expect(read).toHaveLength(6);
    expect(events.at(-1)?.observation.content[0].text).toBe("Done.");
  },
);

test("an answer of several megabytes is cut, and the model is asked to write less", async () => {
  const { events } = await answer("openai/any", [
    terminal("echo first"),
    terminal(`echo ${"x".repeat(2_000_000)}`),
  ]);
  expect(errorsOf(events)).toContainEqual(expect.stringContaining("write less at once"));
  expect(JSON.stringify(events).length).toBeLessThan(500_000);
  expect(events.at(-1)?.observation.content[0].text).toBe("Done.");
});

test("extremely nested arguments of any shape do not end the run", async () => {
  const nested = (levels: number) => `{"text": ${'{"a":'.repeat(levels)}1${"}".repeat(levels)}}`;
  const { events } = await answer(
    "openai/any",
    [
      { name: "echo", arguments: nested(6_000) },
      { name: "echo", arguments: { text: "said" } },
    ],
    { mcp_config: { local: stdioMcp() } },
  );
  expect(errorsOf(events)).toEqual(["The arguments of echo are nested too deep."]);
  expect(
    events.find(({ observation }) => observation?.kind === "MCPToolObservation")?.observation.content[1].text,
  ).toBe("said");
});
