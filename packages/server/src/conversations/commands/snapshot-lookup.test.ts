import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { stateRecord } from "@sandpiper/agent/loop/records";
import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { conversationRow, createTestStore, message } from "../../../test/support/store.ts";
import { SandboxRecords } from "../../../test/support/test-sandboxes.ts";
import type { Store } from "../../store/store.ts";
import { findSnapshot } from "./snapshot-lookup.ts";

let store: Store;
let close: () => Promise<void>;
let now = 1_800_000_000_000;
beforeAll(async () => {
  ({ store, close } = await createTestStore(() => now));
});
afterAll(() => close());

const action = (id = newId()): NewRecord => ({
  listed: true,
  event: {
    kind: "ActionEvent",
    source: "agent",
    thought: [],
    thinking_blocks: [],
    action: { kind: "ThinkAction", thought: "hm" },
    tool_name: "think",
    tool_call_id: id,
    tool_call: { id, name: "think", arguments: "{}", origin: "completion" },
    llm_response_id: id,
    security_risk: "UNKNOWN",
  },
});

test("the snapshot of an event was taken after the work before it and before the work after it", async () => {
  const sandboxes = new SandboxRecords();
  const [sandbox, other] = [sandboxes.add(), sandboxes.add()];
  const row = conversationRow({ sandboxId: sandbox.id, createdAt: now });
  await store.conversations.create(row);
  const add = async (record: NewRecord) => {
    now += 1000;
    const [stored] = await store.events.append(row.id, [record]);
    return stored!.event.id;
  };
  const snap = async (of = sandbox.id) => {
    now += 1000;
    const kept = await sandboxes.snapshots.create(row.userId, of);
    kept.createdAt = now;
    return kept.id;
  };
  const findIn = async (where: typeof row, eventId: string | null) => {
    const path = await store.events.pathTo(where.id, eventId);
    return (await findSnapshot({ events: store.events, sandboxes }, where, path!))?.id;
  };
  const found = (eventId: string | null) => findIn(row, eventId);
  const move = async (to: string | null) => {
    now += 1000;
    await store.events.append(row.id, [stateRecord("leaf_event_id", to)], { navigate: to });
  };

  const asked = await add(message("one"));
  const start = await snap();
  const first = await add(action());
  const late = await add(message("two"));
  await snap(other.id);
  expect(await found(first)).toBeUndefined();
  expect(await found(late)).toBeUndefined();
  const kept = await snap();
  // No tool was called since, so the files are unchanged.
  expect(await found(late)).toBeUndefined();
  const second = await add(action());
  expect(await Promise.all([found(null), found(asked), found(first), found(late), found(second)])).toEqual([
    start,
    start,
    kept,
    kept,
    undefined,
  ]);

  // After the move, new snapshots contain the earlier files.
  await move(first);
  const after = await snap();
  expect(await found(second)).toBeUndefined();
  expect(await found(first)).toBe(kept);
  const third = await add(action());
  await move(second);
  expect(await found(second)).toBeUndefined();
  expect(await Promise.all([found(third), found(first)])).toEqual([undefined, kept]);
  expect(after).not.toBe(kept);

  // Snapshots after the end of a fork's events may contain later work of its source.
  const { spans } = (await store.events.pathTo(row.id, late))!;
  now += 1000;
  const fork = conversationRow({ sandboxId: sandbox.id, createdAt: now });
  const log = await store.conversations.copyLog(row.id, spans);
  await store.conversations.create(fork, undefined, log);
  const ofFork = (eventId: string) => findIn(fork, eventId);
  now += 1000;
  await store.events.append(fork.id, [action()]);
  expect(await Promise.all([ofFork(asked), ofFork(late)])).toEqual([start, undefined]);
});
