import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterEach, expect, test } from "vitest";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish } from "./support/script.ts";

let server: TestPlatform | undefined;
let models: ModelServer | undefined;
afterEach(async () => {
  await server?.stop();
  await models?.close();
  [server, models] = [undefined, undefined];
});

async function start(script: Script, llm: Json): Promise<TestPlatform> {
  models = await startModelServer(script);
  server = await startTestPlatform();
  const settings = { agent_settings_diff: { llm: { api_key: "sk-test-key", base_url: models.url, ...llm } } };
  expect(await server.call("POST", "/api/v1/settings", settings)).toMatchObject({ status: 200 });
  return server;
}

const events = async (id: string): Promise<Json[]> =>
  (await server!.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;

const waitForEnd = (id: string, status = "finished") =>
  until(async () => {
    const { body } = await server!.call("GET", `/api/v1/app-conversations?ids=${id}`);
    return body[0].execution_status === status ? true : undefined;
  });

const say = (id: string, text: string) =>
  server!.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });

test("reasoning items of OpenAI's Responses API are stored, and sent again after a restart", async () => {
  const think = { name: "think", arguments: { thought: "hm" } };
  const { call, dataDir, platform } = await start(
    ({ index }) => {
      if (index > 0)
        return reply.text(`Answer ${index}.`, { thinking: { text: "", signature: `sealed-${index}` } });
      return reply.toolCalls([think, { ...think, thinking: { text: "And?", signature: "sealed-b" } }], {
        thinking: { text: "First.\n\nSecond.", signature: "sealed-a" },
      });
    },
    { model: "openai/responses/gpt-5", reasoning_summary: "auto" },
  );
  const { id } = await startConversation(call, "Think about it");
  await waitForEnd(id);
  const stored = await events(id);
  const actions = stored.filter(({ kind }) => kind === "ActionEvent");
  expect(actions.map((event) => event.responses_reasoning_item)).toEqual([
    { id: "rs_0_0", summary: ["First.", "Second."], encrypted_content: "sealed-a" },
    { id: "rs_0_2", summary: ["And?"], encrypted_content: "sealed-b" },
  ]);
  expect(actions[0]!.tool_call).toMatchObject({ origin: "responses", responses_item_id: "fc_0_0" });
  expect(
    stored.find(({ source, kind }) => kind === "MessageEvent" && source === "agent")!.llm_message,
  ).toMatchObject({
    responses_reasoning_item: { encrypted_content: "sealed-1" },
  });

  await platform.close();
  server = await startTestPlatform({ dataDir });
  await say(id, "Go on");
  await until(() => models!.requests.length === 3);
  const { input } = models!.requests[2]!.body;
  const kinds = input.map((item: Json) => item.encrypted_content ?? item.type ?? item.role);
  expect(kinds.slice(1)).toEqual([
    "user",
    "sealed-a",
    "function_call",
    "sealed-b",
    "function_call",
    "function_call_output",
    "function_call_output",
    "sealed-1",
    "assistant",
    "user",
  ]);
  expect(models!.requests[2]!.body).toMatchObject({
    store: false,
    reasoning: { effort: "high", summary: "auto" },
  });
  await waitForEnd(id);
});

test("a model without native tool calls uses calls in text, and gets an error for an unreadable one", async () => {
  const { call } = await start(
    ({ index }) =>
      reply.text(
        [
          "<function=think>\nhm\n</function>",
          "Now right.\n<function=think>\n<parameter=thought>\nhm\n</parameter>\n",
          "<function=finish>\n<parameter=message>Done.</parameter>\n</function>",
        ][index]!,
      ),
    { model: "openai/local", native_tool_calling: false },
  );
  const { id } = await startConversation(call, "Think about it");
  await waitForEnd(id);
  const stored = (await events(id)).filter(({ kind }) => kind !== "SystemPromptEvent");
  expect(stored.map(({ kind, source }) => `${kind} ${source}`)).toEqual([
    "MessageEvent user",
    "MessageEvent agent",
    "MessageEvent environment",
    "ActionEvent agent",
    "ObservationEvent environment",
    "ActionEvent agent",
    "ObservationEvent environment",
  ]);
  expect(stored[2]!.llm_message.content[0].text).toContain("<parameter=name> or </function> was expected");
  expect(stored[3]).toMatchObject({
    tool_name: "think",
    action: { thought: "hm" },
    thought: [{ text: "Now right." }],
  });
  expect(models!.requests.every(({ tools }) => tools.length === 0)).toBe(true);
});

test("a run waits with notices for an unavailable model endpoint, and a later message continues it", async () => {
  const script: Script = ({ messages }) =>
    finish(`I read ${messages.filter(({ role }) => role === "user").length}.`);
  const { call } = await start(script, {
    model: "openai/away",
    num_retries: 3,
    retry_min_wait: 0,
    retry_multiplier: 0.1,
  });
  const { id } = await startConversation(call, "Hello");
  await waitForEnd(id);
  const { url } = models!;
  await models!.close();
  const socket = SocketClient.forConversation(server!, id);
  await socket.frame(({ key }) => key === "full_state");
  await say(id, "Are you there?");
  await socket.status("error");
  const waits = socket.frames
    .filter(({ key }) => key === "agent_state")
    .map(({ value }) => value.model_retry);
  expect(waits.slice(0, 3)).toMatchObject([
    { attempt: 1, delay_ms: 25, reason: expect.stringContaining("ECONNREFUSED") },
    { attempt: 2, delay_ms: 50 },
    // It has answered before.
    { attempt: 3, delay_ms: 50 },
  ]);
  expect((await events(id)).at(-1)).toMatchObject({
    kind: "ConversationErrorEvent",
    code: "ModelFailed",
    detail: expect.stringMatching(/^The model openai\/away failed after \d+ attempts: .*ECONNREFUSED/),
  });
  socket.close();

  models = await startModelServer(script, { port: Number(new URL(url).port) });
  await say(id, "And now?");
  await waitForEnd(id);
  expect((await events(id)).at(-1)).toMatchObject({ observation: { content: [{ text: "I read 3." }] } });
});
