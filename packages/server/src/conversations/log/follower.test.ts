import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { stateRecord } from "@sandpiper/agent/loop/records";
import { View } from "@sandpiper/agent/prompt/view";
import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { stub } from "@sandpiper/core/test/support/stub";
import { newId } from "@sandpiper/wire";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { conversationRow, createTestStore, message, stateUpdate } from "../../../test/support/store.ts";
import type { EventLog } from "../../store/event-log.ts";
import type { Store } from "../../store/store.ts";
import { LogFollower } from "./follower.ts";

const scheduler = new EventLoopScheduler();

let store: Store;
let close: () => Promise<void>;
beforeAll(async () => {
  ({ store, close } = await createTestStore());
});
afterAll(() => close());

const action = (callId: string): NewRecord => ({
  listed: true,
  event: {
    kind: "ActionEvent",
    source: "agent",
    thought: [],
    thinking_blocks: [],
    action: { kind: "ThinkAction", thought: "hm" },
    tool_name: "think",
    tool_call_id: callId,
    tool_call: { id: callId, name: "think", arguments: "{}", origin: "completion" },
    llm_response_id: callId,
    security_risk: "UNKNOWN",
  },
});
const result = (callId: string): NewRecord => ({
  listed: true,
  event: {
    kind: "AgentErrorEvent",
    source: "agent",
    tool_name: "think",
    tool_call_id: callId,
    error: `no ${callId}`,
  },
});

const snapshot = ({ state, view, recent }: LogFollower) => ({
  state: { ...state, open: [...state.openActions.keys()] },
  messages: structuredClone(view.messages),
  recent: recent.slice(-8).map(({ id }) => id),
});

test("an early and a late follower read the same state after any appends and moves", async () => {
  const step = fc.oneof(
    fc.constantFrom("message", "call", "result", "stats").map((kind) => ({ kind, to: 0 })),
    fc.nat().map((to) => ({ kind: "move", to })),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
      const row = conversationRow();
      await store.conversations.create(row);
      const live = new LogFollower({ events: store.events, scheduler }, row.id, new View());
      await live.ready;
      const ids: string[] = [];
      for (const { kind, to } of steps) {
        const call = [...live.state.openActions.keys()][0];
        let records = [message(`text ${ids.length}`)];
        let navigate: { navigate: string | null } | undefined;
        if (kind === "call") records = [action(newId())];
        if (kind === "result" && call) records = [result(call), stateUpdate("execution_status", "paused")];
        if (kind === "stats") records = [stateRecord("stats", { usage_to_metrics: {} })];
        if (kind === "move") {
          const target = [null, ...ids][to % (ids.length + 1)]!;
          navigate = { navigate: target };
          records = [stateRecord("leaf_event_id", target), stateUpdate("execution_status", "idle")];
        }
        for (const { listed, event } of await store.events.append(row.id, records, navigate))
          if (listed) ids.push(event.id);
        const late = new LogFollower({ events: store.events, scheduler }, row.id, new View());
        late.close();
        await Promise.all([late.ready, live.ready]);
        expect(snapshot(live)).toEqual(snapshot(late));
        expect(live.state.leafEventId).toBe(
          ((await store.conversations.get(row.id))!.head ?? ids.at(-1)) || undefined,
        );
      }
      live.close();
    }),
    { numRuns: 25 },
  );
});

test("state of another branch is not visible until HEAD returns to it", async () => {
  const row = conversationRow();
  await store.conversations.create(row);
  const [first] = await store.events.append(row.id, [message("one"), action("a"), result("a")]);
  const [second] = await store.events.append(row.id, [message("two"), action("b")]);
  const follower = new LogFollower({ events: store.events, scheduler }, row.id, new View());
  const move = async (to: string | null) => {
    await store.events.append(row.id, [stateRecord("leaf_event_id", to)], { navigate: to });
    await follower.ready;
  };
  await follower.ready;
  expect([...follower.state.openActions.keys()]).toEqual(["b"]);
  await move(first!.event.id);
  expect([...follower.state.openActions.keys()]).toEqual([]);
  expect(follower.state.lastUserMessageId).toBe(first!.event.id);
  await move(null);
  expect(follower.state).toMatchObject({
    lastUserMessageSeq: 0,
    lastUserMessageId: undefined,
    leafEventId: undefined,
  });
  expect(follower.view.messages).toEqual([]);
  await move(second!.event.id);
  const texts = follower.view.messages.map(({ role }) => role);
  expect(texts).toEqual(["user", "assistant", "tool", "user"]);
  follower.close();
});

/** A log whose answers to reads come some milliseconds after the reads. */
function slowLog(): EventLog {
  const { events } = store;
  let calls = 0;
  const late = async <T>(reading: Promise<T>): Promise<T> => {
    const result = await reading;
    await new Promise((resolve) => setTimeout(resolve, (++calls * 7) % 13));
    return result;
  };
  return stub<EventLog>({
    follow: (...call) => events.follow(...call),
    lastSeq: (id) => late(events.lastSeq(id)),
    branch: (id) => late(events.branch(id)),
    readParsed: (...call) => late(events.readParsed(...call)),
  });
}

test("records and moves that become durable during slow reads are not missed", async () => {
  const step = fc.oneof(fc.constant(-1), fc.nat());
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 20 }), async (steps) => {
      const row = conversationRow();
      await store.conversations.create(row);
      const live = new LogFollower({ events: slowLog(), scheduler }, row.id, new View());
      const ids: string[] = [];
      for (const to of steps) {
        const target = to < 0 ? undefined : [null, ...ids][to % (ids.length + 1)]!;
        const records =
          target === undefined ? [message(`text ${ids.length}`)] : [stateRecord("leaf_event_id", target)];
        const stored = await store.events.append(
          row.id,
          records,
          target === undefined ? {} : { navigate: target },
        );
        ids.push(...stored.flatMap(({ listed, event }) => (listed ? [event.id] : [])));
      }
      await live.ready;
      const late = new LogFollower({ events: store.events, scheduler }, row.id, new View());
      late.close();
      await late.ready;
      expect(snapshot(live)).toEqual(snapshot(late));
      live.close();
    }),
    { numRuns: 25 },
  );
});

test("a long log is read in turns, with concurrent appends and moves", async () => {
  const row = conversationRow();
  await store.conversations.create(row);
  const append = (records: NewRecord[], navigate?: { navigate: string | null }) =>
    store.events.append(row.id, records, navigate);
  const move = (to: string) => append([stateRecord("leaf_event_id", to)], { navigate: to });
  let middle = "";
  for (let batch = 0; batch < 9; batch++) {
    const records = await append(
      Array.from({ length: 400 }, (_, index) => message(`text ${batch} ${index}`)),
    );
    if (batch === 4) middle = records[7]!.event.id;
  }
  await move(middle);
  await append([message("on the branch"), action("a")]);
  const whole = async () => {
    const follower = new LogFollower({ events: store.events, scheduler }, row.id, new View());
    follower.close();
    expect(follower.isReady).toBe(false);
    await follower.ready;
    return snapshot(follower);
  };

  const follower = new LogFollower({ events: store.events, scheduler }, row.id, new View());
  expect(follower.isReady).toBe(false);
  const late = append([message("meanwhile"), result("a")]);
  let turns = 0;
  const others = (async () => {
    for (; !follower.isReady; turns++) await new Promise((resolve) => setImmediate(resolve));
  })();
  await follower.ready;
  await Promise.all([late, others]);
  expect(turns).toBeGreaterThan(3);
  expect(snapshot(follower)).toEqual(await whole());

  const moved = new LogFollower({ events: store.events, scheduler }, row.id, new View());
  await move(middle);
  await moved.ready;
  expect(snapshot(moved)).toEqual(await whole());
  expect(moved.view.messages.length).toBe(4 * 400 + 8);
  for (const one of [follower, moved]) one.close();
  expect(snapshot(follower)).toEqual(snapshot(moved));
});
