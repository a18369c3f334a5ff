import { ConversationClient } from "@openhands/typescript-client/clients";
import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";

/** Actions that wait for approval, and policies that decide it (agent-server.md section 4). */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
let client: ConversationClient;
/** Answers that the model holds back until a test gives them, by the text that asks for them. */
const held = new Map<string, PromiseWithResolvers<Reply>>();

beforeAll(async () => {
  models = await startModelServer(({ messages }) => {
    const last = messages.at(-1)!;
    const [, verb, rest = ""] = (last.role === "user" && /^(\w+): (.*)/m.exec(last.text)) || [];
    if (verb === "run") return reply.toolCalls([terminal(rest)]);
    if (verb === "slow") return reply.toolCalls([terminal("sleep 700"), terminal("echo never")]);
    if (messages.some(({ role, text }) => role === "user" && text.startsWith("silence")))
      return reply.answer({});
    if (verb === "two") return reply.toolCalls([terminal("echo one"), terminal("echo two")]);
    if (verb === "view")
      return reply.toolCalls([
        { name: "file_editor", arguments: { command: "view", path: rest, summary: "look" } },
      ]);
    if (verb === "risk") return reply.toolCalls([terminal("echo risky", { security_risk: rest })]);
    if (verb === "hold") return held.get(rest)!.promise;
    if (verb === "fail") return reply.error(400, { error: { message: "no such thing" } });
    // A model that repeats itself is stuck.
    if (messages.some(({ role, text }) => role === "user" && text.startsWith("loop")))
      return reply.toolCalls([terminal("echo same")]);
    return last.role === "user" ? reply.text(`Said ${last.text}`) : finish("Done.");
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
  client = new ConversationClient({ host: agent.url, apiKey: agent.key });
});
afterAll(async () => {
  for (const { resolve } of held.values()) resolve(finish("Late."));
  client?.close();
  await platform?.stop();
  await models?.close();
});

/** One conversation with a socket that follows it. */
async function conversation(change: Json = {}) {
  const { status, body } = await agent.call("POST", "/api/conversations", sdkRequest(models.url, change));
  expect([status, body]).toEqual([201, body]);
  const { id } = body;
  const socket = SocketClient.forConversation({ url: agent.url, key: agent.key }, id);
  await socket.frame(({ key }) => key === "full_state");
  return {
    id,
    socket,
    status: async () => ((await client.getConversation(id)) as Json).execution_status,
    send: (text: string, run = false) =>
      client.sendEvent(id, { role: "user", content: [{ type: "text", text }] }, { run }),
    run: () => client.runConversation(id),
    events: async () => ((await client.searchEvents(id)) as Json).items as Json[],
    /** Waits for a full state with this status that is newer than the frames received so far. */
    async closing(status: string, from = socket.frames.length): Promise<Json> {
      const became = await socket.frame(
        (frame) =>
          frame.key === "execution_status" && frame.value === status && socket.frames.indexOf(frame) >= from,
      );
      const after = socket.frames.indexOf(became);
      return socket.frame(
        (frame) =>
          frame.key === "full_state" &&
          frame.value.execution_status === status &&
          socket.frames.indexOf(frame) > after,
      );
    },
    /** Sends, runs, and waits for the end. */
    async until(text: string, status: string): Promise<void> {
      const from = socket.frames.length;
      await this.send(text, true);
      await this.closing(status, from);
      expect(await this.status()).toBe(status);
    },
  };
}
const kinds = (events: Json[]) => events.map(({ kind }) => kind);
const hold = (name: string) => {
  const answer = Promise.withResolvers<Reply>();
  held.set(name, answer);
  return (one: Reply) => answer.resolve(one);
};
const asking = async (text: string, count: number) => {
  const asked = () => models.requests.filter(({ messages }) => messages.at(-1)!.text.includes(text)).length;
  while (asked() < count) await new Promise((resolve) => setTimeout(resolve, 5));
};

test("actions wait for approval: a plain run and accept execute them all, in their order", async () => {
  const one = await conversation({ confirmation_policy: { kind: "AlwaysConfirm" } });
  await one.until("two: commands", "waiting_for_confirmation");
  expect(kinds(await one.events()).slice(-2)).toEqual(["ActionEvent", "ActionEvent"]);
  let from = one.socket.frames.length;
  await one.run();
  // The finish that follows is no action that needs approval.
  await one.closing("finished", from);
  const outputs = (await one.events())
    .filter(({ kind }) => kind === "ObservationEvent")
    .map(({ observation }) => observation.content[0].text);
  expect(outputs.slice(0, 2).map((text: string) => text.trim().split("\n")[0])).toEqual(["one", "two"]);

  await one.until("run: echo three", "waiting_for_confirmation");
  from = one.socket.frames.length;
  const accept = () => client.respondToConfirmation(one.id, { accept: true });
  expect(await Promise.all([accept(), accept()])).toEqual([{ success: true }, { success: true }]);
  await one.closing("finished", from);
  expect(
    (await one.events()).filter(({ observation }) => observation?.command === "echo three"),
  ).toHaveLength(1);
});

test("an approval at the moment at which actions begin to wait counts, and counts once", async () => {
  const one = await conversation({ confirmation_policy: { kind: "AlwaysConfirm" } });
  const executed = async (command: string) =>
    (await one.events()).filter(
      ({ kind, observation }) => kind === "ObservationEvent" && observation.command === command,
    ).length;
  for (let round = 1; round <= 10; round++) {
    const from = one.socket.frames.length;
    await one.send(`run: echo round ${round}`, true);
    // At the very frame, or after the end of the run.
    if (round % 2 === 0) await one.closing("waiting_for_confirmation", from);
    await one.socket.frame(
      (frame) => frame.value === "waiting_for_confirmation" && one.socket.frames.indexOf(frame) >= from,
    );
    const approve = () =>
      agent.call("POST", `/api/conversations/${one.id}/events/respond_to_confirmation`, { accept: true });
    expect((await Promise.all([approve(), approve(), approve()])).map(({ status }) => status)).toEqual([
      200, 200, 200,
    ]);
    await one.closing("finished", from);
    expect(await executed(`echo round ${round}`)).toBe(1);
  }
  await one.until("run: echo unapproved", "waiting_for_confirmation");
  const from = one.socket.frames.length;
  await one.send("Something else", true);
  await one.closing("finished", from);
  expect(await executed("echo unapproved")).toBe(0);
});

test("a rejection answers each waiting action and leaves the agent idle, which reads the reason when it continues", async () => {
  const one = await conversation({ confirmation_policy: { kind: "AlwaysConfirm" } });
  await one.until("two: rejected", "waiting_for_confirmation");
  const from = one.socket.frames.length;
  expect(await client.respondToConfirmation(one.id, { accept: false, reason: "Not here." })).toEqual({
    success: true,
  });
  await one.socket.frame(({ key, value }) => key === "execution_status" && value === "idle");
  const events = await one.events();
  const actions = events.filter(({ kind }) => kind === "ActionEvent");
  expect(events.slice(-2)).toMatchObject(
    actions.map(({ id, tool_call_id }) => ({
      kind: "UserRejectObservation",
      action_id: id,
      tool_call_id,
      rejection_reason: "Not here.",
    })),
  );
  await client.respondToConfirmation(one.id, { accept: false });
  expect(await one.events()).toHaveLength(events.length);
  await one.run();
  await one.closing("finished", from);
  expect(models.requests.at(-1)!.messages.at(-1)!.text).toContain("Not here.");
});

test("a message with run rejects waiting actions: none runs, read-only ones included, and the agent reads the rejection", async () => {
  const one = await conversation({ confirmation_policy: { kind: "AlwaysConfirm" } });
  for (const ask of ["two: unanswered", "view: /etc/passwd"]) {
    await one.until(ask, "waiting_for_confirmation");
    const before = await one.events();
    const waiting = before.slice(ask.startsWith("two") ? -2 : -1);
    const from = one.socket.frames.length;
    await one.send("Something else", true);
    await one.closing("finished", from);
    const after = (await one.events()).slice(before.length);
    expect(after.slice(0, waiting.length)).toMatchObject(
      waiting.map(({ id, tool_call_id }) => ({
        kind: "UserRejectObservation",
        action_id: id,
        tool_call_id,
        rejection_source: "user",
      })),
    );
    expect(kinds(after.slice(waiting.length))).toEqual(["MessageEvent", "MessageEvent"]);
    const read = models.requests.at(-1)!.messages.slice(-1 - waiting.length);
    expect(read.map(({ role, text }) => [role, text])).toEqual([
      ...waiting.map(() => [
        "tool",
        "The action was not run: it waited for the user's approval, and the user wrote instead.",
      ]),
      ["user", "Something else"],
    ]);
  }
});

test("of a concurrent approval, rejection and message the first counts, and each action gets one result", async () => {
  const one = await conversation({ confirmation_policy: { kind: "AlwaysConfirm" } });
  for (let round = 0; round < 6; round++) {
    await one.until(`two: round ${round}`, "waiting_for_confirmation");
    const before = (await one.events()).length;
    const from = one.socket.frames.length;
    const answers = [
      () => client.respondToConfirmation(one.id, { accept: true }),
      () => client.respondToConfirmation(one.id, { accept: false }),
      () => one.send("Something else", true),
    ];
    const order = [0, 1, 2].map((index) => answers[(index + round) % 3]!);
    await Promise.all(order.map((answer) => answer()));
    await one.closing("finished", from);
    const all = await one.events();
    for (const { tool_call_id } of all.slice(before - 2, before))
      expect(all.filter((event) => event.tool_call_id === tool_call_id)).toHaveLength(2);
    expect(all.filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
  }
});

test("the policy and the analyzer decide which actions wait, from the next step on", async () => {
  const one = await conversation({
    confirmation_policy: { kind: "ConfirmRisky", threshold: "HIGH", confirm_unknown: false },
  });
  await one.until("risk: HIGH", "finished");
  expect(await client.setSecurityAnalyzer(one.id, { kind: "LLMSecurityAnalyzer" })).toEqual({
    success: true,
  });
  expect((await one.socket.frame(({ key }) => key === "security_analyzer")).value).toEqual({
    kind: "LLMSecurityAnalyzer",
  });
  await one.until("risk: MEDIUM", "finished");
  await one.until("risk: HIGH", "waiting_for_confirmation");
  expect(await client.setConfirmationPolicy(one.id, { kind: "NeverConfirm" })).toEqual({
    success: true,
  });
  expect((await one.socket.frame(({ key }) => key === "confirmation_policy")).value).toEqual({
    kind: "NeverConfirm",
  });
  await client.respondToConfirmation(one.id, { accept: false });
  await one.until("risk: HIGH", "finished");
  await client.setSecurityAnalyzer(one.id, null);
  expect(await client.getConversation(one.id)).toMatchObject({
    confirmation_policy: { kind: "NeverConfirm" },
    security_analyzer: null,
  });
  // The same during a run.
  const answer = hold("policy");
  const from = one.socket.frames.length;
  await one.send("hold: policy", true);
  await asking("hold: policy", 1);
  await client.setConfirmationPolicy(one.id, { kind: "AlwaysConfirm" });
  answer(reply.toolCalls([terminal("echo now")]));
  await one.closing("finished", from);
});
