import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { expect, test } from "vitest";
import { LogFeed } from "./log-feed.ts";

const record = (seq: number) => ({ seq }) as LogRecord;

/** A log whose reads wait for the test. */
function gatedLog() {
  const reads: { afterSeq: number; answer: (records: LogRecord[]) => void; fail: () => void }[] = [];
  const feed = new LogFeed({
    lastSeq: async () => 0,
    read: (_id, afterSeq) =>
      new Promise((answer, reject) => {
        reads.push({ afterSeq, answer, fail: () => reject(new Error("away")) });
      }),
    lastSeqs: async () => new Map(),
  });
  const seen: number[] = [];
  const unfollow = feed.follow("one", (records) => void seen.push(...records.map(({ seq }) => seq)));
  return { feed, reads, seen, unfollow };
}

/** Whether a promise has settled by the next turn of the event loop. */
async function isSettled(promise: Promise<void> | undefined): Promise<boolean> {
  let settled = false;
  void Promise.resolve(promise).then(() => {
    settled = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
}

test("an append is done when followers have it, also while an earlier record of another server is read", async () => {
  const { feed, reads, seen } = gatedLog();
  await feed.whenReady("one");
  await new Promise((resolve) => setImmediate(resolve));
  feed.heard("one", 1);
  const appended = feed.appended("one", [record(2)]);
  expect(await isSettled(appended)).toBe(false);
  // The first read failed as with a database that is away, so the next poll reads again.
  reads[0]!.fail();
  expect(await isSettled(appended)).toBe(false);
  await feed.poll();
  reads[1]!.answer([record(1)]);
  await appended;
  expect(seen).toEqual([1, 2]);
  // No earlier record is missing, so the append is delivered at once.
  expect(feed.appended("one", [record(3)])).toBeUndefined();
  expect(seen).toEqual([1, 2, 3]);
});

test("an append does not wait for a follower that goes away", async () => {
  const { feed, unfollow } = gatedLog();
  await feed.whenReady("one");
  await new Promise((resolve) => setImmediate(resolve));
  feed.heard("one", 1);
  const appended = feed.appended("one", [record(2)]);
  unfollow();
  expect(await isSettled(appended)).toBe(true);
});
