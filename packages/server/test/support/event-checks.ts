import { Hub } from "../../src/conversations/log/hub.ts";
import type { EventLog } from "../../src/store/event-log.ts";
import { SqliteEventLog } from "../../src/store/sqlite/event-log.ts";
import { eventProblems } from "./event-schema.ts";
import { variables } from "./nodes/variables.ts";

/**
 * Compares every event that a server in this process stores or sends with the published schema.
 * Loaded once per worker; the set-up of each test file (check-events.ts) restarts it.
 */
const found = new Map<string, number>();
let checking = true;

export function startEventChecks(): void {
  checking = true;
  found.clear();
}

/** Throws when an event since `startEventChecks` does not fit the published schema. */
export function endEventChecks(): void {
  if (found.size === 0) return;
  const list = [...found].slice(0, 20).map(([problem, times]) => `${problem} (${times} times)`);
  found.clear();
  throw new Error(`Events that do not fit the published schema:\n${list.join("\n")}`);
}

/** For test files that store events of their own invention. */
export function allowInventedEvents(): void {
  checking = false;
}

function check(event: unknown): void {
  if (!checking) return;
  for (const problem of eventProblems(event as Record<string, unknown>))
    found.set(problem, (found.get(problem) ?? 0) + 1);
}

/** Checks the appends of one kind of log. */
function checkAppends(log: Pick<EventLog, "append">): void {
  const { append } = log;
  log.append = async function (...call) {
    const records = await append.apply(this, call);
    for (const { event } of records) check(event);
    return records;
  };
}

checkAppends(SqliteEventLog.prototype);
if (process.env[variables.postgres] !== undefined)
  checkAppends((await import("../../src/store/postgres/event-log.ts")).PostgresEventLog.prototype);
const { publish } = Hub.prototype;
Hub.prototype.publish = function (id, frame) {
  check(JSON.parse(frame.json));
  publish.call(this, id, frame);
};
