import { afterAll } from "vitest";
import { Hub } from "../../src/conversations/hub.ts";
import { SqliteEventLog } from "../../src/store/sqlite/event-log.ts";
import { eventProblems } from "./event-schema.ts";

/**
 * Set-up of every test file: whatever a server in this process stores or sends is held against the published schema of events, and the file fails at its
 * end where something does not fit.
 */
const found = new Map<string, number>();
let checking = true;

/** For tests that put events of their own invention into a store. */
export function allowInventedEvents(): void {
  checking = false;
}

function check(event: unknown): void {
  if (!checking) return;
  for (const problem of eventProblems(event as Record<string, unknown>)) found.set(problem, (found.get(problem) ?? 0) + 1);
}

const { append } = SqliteEventLog.prototype;
SqliteEventLog.prototype.append = async function (...call) {
  const records = await append.apply(this, call);
  for (const { event } of records) check(event);
  return records;
};
const { publish } = Hub.prototype;
Hub.prototype.publish = function (id, frame) {
  check(JSON.parse(frame.json));
  publish.call(this, id, frame);
};

afterAll(() => {
  if (found.size === 0) return;
  const list = [...found].slice(0, 20).map(([problem, times]) => `${problem} (${times} times)`);
  found.clear();
  throw new Error(`Events that do not fit the published schema:\n${list.join("\n")}`);
});
