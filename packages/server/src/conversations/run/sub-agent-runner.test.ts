import type { Tool, ToolContext } from "@sandpiper/agent/tools/tool";
import { stub } from "@sandpiper/core/test/support/stub";
import { newId, type TaskObservation } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { conversationRow, createTestStore, message, stateUpdate } from "../../../test/support/store.ts";
import { SubAgentRunner, type SubAgentRunnerDeps } from "./sub-agent-runner.ts";

let store: Awaited<ReturnType<typeof createTestStore>>["store"];
let close: () => Promise<void>;
beforeAll(async () => {
  ({ store, close } = await createTestStore());
});
afterAll(() => close());

const never = new Promise<never>(() => {});
/** A sub-agent that finishes at once. */
const send = async (id: string) => {
  await store.events.append(id, [message("Work"), stateUpdate("execution_status", "finished")]);
};

/** Calls of a parent's task tool, whose parts may hang. */
async function startCalls(hangs: Partial<{ find: () => Promise<never>; send: () => Promise<never> }>) {
  const parent = conversationRow();
  await store.conversations.create(parent);
  await store.events.append(parent.id, [stateUpdate("execution_status", "running")]);
  const runner = new SubAgentRunner({
    store,
    agents: stub<SubAgentRunnerDeps["agents"]>({
      clientAgent: async () => undefined,
      policy: async () => ({ kind: "NeverConfirm" }),
      hasTaskTool: async () => true,
    }),
    definitions: stub({
      list: async () => [],
      find: async () => hangs.find?.() ?? { name: "general-purpose", description: "", systemPrompt: "" },
    }),
    runner: { abort: async () => {} },
    usage: { setTaskMetrics: async () => {} },
    commands: stub({ send: async (id: string) => hangs.send?.() ?? send(id) }),
  });
  const [tool] = (await runner.tools(parent)) as [Tool];
  const actionId = newId();
  return (signal: AbortSignal) =>
    tool.run(
      { kind: "TaskAction", prompt: "Work", subagent_type: "general-purpose" } as never,
      stub<ToolContext>({ actionId, signal }),
    ) as Promise<TaskObservation>;
}

test.each(["find", "send"] as const)(
  "a call that hangs in a run that has moved (%s) holds up neither the run nor the repeated call",
  async (part) => {
    const begun = Promise.withResolvers<void>();
    const hang = () => {
      begun.resolve();
      return never;
    };
    const hangs = { [part]: hang };
    const call = await startCalls(hangs);
    const moved = new AbortController();
    const first = call(moved.signal);
    await begun.promise;
    delete hangs[part];
    moved.abort("shutdown");
    await expect(first).rejects.toBe("shutdown");
    const again = await call(new AbortController().signal);
    expect(again).toMatchObject({ status: "completed", is_error: false });
  },
);
