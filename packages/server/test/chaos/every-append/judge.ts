import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Json } from "../../support/platform.ts";
import type { StoredRecord } from "./log.ts";
import { interrupted, shownAtEnd, type Task, usage, userWish } from "./task.ts";

/** The stored log of a conversation. */
export function readLog(dataDir: string, conversationId: string): StoredRecord[] {
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"), {
    readOnly: true,
    timeout: 5_000,
  });
  try {
    const rows = database
      .prepare(
        `SELECT listed_index, json FROM events WHERE conversation = (SELECT number FROM conversations WHERE id = ?) ORDER BY key`,
      )
      .all(conversationId) as { listed_index: number | null; json: string }[];
    return rows.map(({ listed_index, json }) => ({
      listed: listed_index !== null,
      json,
      event: JSON.parse(json),
    }));
  } finally {
    database.close();
  }
}

const results = ["ObservationEvent", "AgentErrorEvent", "UserRejectObservation"];

/** Calls that have no result in a log, by id. */
export function findOpenCalls(log: readonly StoredRecord[]): Map<string, Json> {
  const open = new Map<string, Json>();
  for (const { event } of log) {
    if (event.kind === "ActionEvent") open.set(event.tool_call_id, event);
    else if (results.includes(event.kind)) open.delete(event.tool_call_id);
  }
  return open;
}

/** Tools that the server may run again by itself. */
const repeatable = [
  "think",
  "finish",
  "task_tracker",
  "glob",
  "grep",
  "task",
  "switch_llm",
  "browser_list_tabs",
];

export interface LogEvidence {
  /** The stored log at each kill of the server. */
  deaths: readonly (readonly StoredRecord[])[];
  /** The log at the end. */
  after: readonly StoredRecord[];
  /** Ids of the listed events that followers received. */
  announced: readonly string[];
  /** The shown and the expected result of the conversation; undefined for a sub-agent. */
  shown?: { is: string; expected: string };
  /** How many messages came of the user, where it is not one. */
  messages?: number;
  /** A user took part: the run paused and resumed. */
  rested?: boolean;
  /**
   * Something besides the server failed: more outcomes may be unknown, and a run may have restarted
   * after a full disk.
   */
  faults?: boolean;
}

/** The error of runs that could not be stored. */
export const diskFull = /The disk of the data folder is full/;

/** Returns the problems of a finished conversation whose server was killed. */
export function checkLog(witness: LogEvidence): string[] {
  const { deaths, after, announced, shown, messages = 1, rested = false, faults = false } = witness;
  const wrong: string[] = [];
  const check = (text: string, is: unknown, wanted: unknown) => {
    if (JSON.stringify(is) !== JSON.stringify(wanted))
      wrong.push(`${text}: ${JSON.stringify(is)}, not ${JSON.stringify(wanted)}`);
  };
  const events = after.map(({ event }) => event);
  const ofKind = (kind: string) => events.filter((event) => event.kind === kind);
  const stored = new Set(events.map(({ id }) => id));
  check(
    "announced and not stored",
    announced.filter((id) => !stored.has(id)),
    [],
  );
  for (const before of deaths)
    check("lost or changed", before.filter(({ json }, index) => after[index]?.json !== json).length, 0);
  check("doubled ids", events.length - new Set(events.map(({ id }) => id)).size, 0);
  check(
    "times that do not increase",
    events.filter(({ timestamp }, index) => index > 0 && timestamp <= events[index - 1]!.timestamp).length,
    0,
  );

  const calls = ofKind("ActionEvent").map((event) => event.tool_call_id);
  check(
    "calls that were made twice",
    calls.filter((id, index) => calls.indexOf(id) < index),
    [],
  );
  const answered = events.filter(({ kind }) => results.includes(kind)).map((event) => event.tool_call_id);
  check("results", [...answered].sort(), [...calls].sort());
  for (const [index, event] of events.entries()) {
    if (!results.includes(event.kind)) continue;
    const action = events.findIndex(
      (other) => other.kind === "ActionEvent" && other.tool_call_id === event.tool_call_id,
    );
    if (action > index || (event.action_id && event.action_id !== events[action]?.id))
      wrong.push(`a result of no action: ${event.id}`);
  }
  const unknown = events.filter((event) => event.kind === "AgentErrorEvent" && interrupted.test(event.error));
  const cutOff = new Set(deaths.flatMap(findInterruptedCalls));
  // A command goes on, unless its shell was not there yet.
  const commands = new Set(
    ofKind("ActionEvent").flatMap((event) => (event.tool_name === "terminal" ? event.tool_call_id : [])),
  );
  const goesOn = (id: string) => cutOff.has(id) && commands.has(id);
  check(
    "calls whose outcome is unknown",
    unknown
      .map((event) => event.tool_call_id)
      .filter((id) => (!faults || cutOff.has(id)) && !goesOn(id))
      .sort(),
    [...cutOff].filter((id) => !goesOn(id)).sort(),
  );

  const forgotten = ofKind("Condensation").flatMap((event) => event.forgotten_event_ids as string[]);
  check("forgotten twice", forgotten.length - new Set(forgotten).size, 0);
  check(
    "summaries asked for and not made",
    ofKind("CondensationRequest").length > ofKind("Condensation").length,
    false,
  );
  check("user messages", ofKind("MessageEvent").filter(({ source }) => source === "user").length, messages);
  check("system prompts", ofKind("SystemPromptEvent").length, 1);
  check(
    "errors",
    ofKind("ConversationErrorEvent").flatMap(({ detail }) => (faults && diskFull.test(detail) ? [] : detail)),
    [],
  );
  const states = ofKind("ConversationStateUpdateEvent");
  const statuses = states.filter(({ key }) => key === "execution_status").map(({ value }) => value);
  check("statuses", rested || faults ? [statuses[0], statuses.at(-1)] : statuses, ["running", "finished"]);
  check("the end", events.at(-1)?.value, "finished");
  const answers = new Set(ofKind("ActionEvent").map((event) => event.llm_response_id)).size;
  const counted = states.findLast(({ key }) => key === "stats")?.value.usage_to_metrics.agent
    .accumulated_token_usage;
  check(
    "tokens",
    [counted?.prompt_tokens, counted?.completion_tokens],
    [usage.prompt * answers, usage.completion * answers],
  );
  if (shown) check("work", shown.is.trim(), shown.expected);
  return wrong;
}

/** The last status in a log. */
export function getStatus(log: readonly StoredRecord[]): string | undefined {
  return log.findLast(({ event }) => event.key === "execution_status")?.event.value;
}

/** Open calls that the server must not repeat and that did not wait for the user. */
function findInterruptedCalls(log: readonly StoredRecord[]): string[] {
  let status = "";
  let waiting = new Set<string>();
  for (const [index, { event }] of log.entries()) {
    if (event.key !== "execution_status") continue;
    if (event.value === "waiting_for_confirmation")
      waiting = new Set(findOpenCalls(log.slice(0, index)).keys());
    else if (event.value === "running" && status === "waiting_for_confirmation") waiting = new Set();
    status = event.value;
  }
  const open = [...findOpenCalls(log).values()].filter((event) => !repeatable.includes(event.tool_name));
  return open.map((event) => event.tool_call_id as string).filter((id) => !waiting.has(id));
}

/** The final result of a conversation. */
export function getShownResult(log: readonly StoredRecord[]): string {
  const action = log.findLast(({ event }) => event.action?.command === shownAtEnd)?.event;
  const result = log.find(({ event }) => event.action_id === action?.id)?.event;
  return result?.observation?.content[0]?.text ?? "";
}

/** A conversation that has ended, as it was left by each death. */
export interface EndedConversation {
  id: string;
  task: Pick<Task, "asked" | "userActions" | "expected" | "parts">;
  deaths: readonly ReadonlyMap<string, readonly StoredRecord[]>[];
  after: ReadonlyMap<string, readonly StoredRecord[]>;
  announced: readonly string[];
  faults?: boolean;
}

/** Returns the problems of a conversation and its sub-agents. */
export function checkAll({
  id,
  task,
  deaths,
  after,
  announced,
  faults = false,
}: EndedConversation): string[] {
  const { asked = {}, userActions, expected } = task;
  return [...after].flatMap(([one, log]) => {
    const asks = log.filter(({ event }) =>
      Object.keys(asked).some((words) => JSON.stringify(event.llm_message ?? "").includes(words)),
    );
    const common = {
      deaths: deaths.map((logs) => logs.get(one) ?? []),
      after: log,
      faults,
      messages: 1 + asks.length,
      rested: asks.length > 0 || userActions !== undefined,
    };
    const is = faults ? withoutRepeats(getShownResult(log), task) : getShownResult(log);
    if (one === id) return checkLog({ ...common, announced, shown: { is, expected } });
    return checkLog({ ...common, announced: [] }).map((text) => `sub-agent ${one}: ${text}`);
  });
}

/** A sub-agent that failed is followed by another that repeats its work. */
function withoutRepeats(shown: string, { parts, asked = {} }: Pick<Task, "parts" | "asked">): string {
  const others = Object.entries(asked).flatMap(([words, steps]) => (words === userWish ? [] : [steps]));
  const works = [...Object.values(parts), ...others].flat(2);
  const may = new Set(works.flatMap(({ trace = "" }) => /\^(\w+) /.exec(trace)?.[1] ?? []));
  const [names = "", ...rest] = shown.split("\n");
  const once = names.split(",").filter((name, index, all) => !may.has(name) || all.indexOf(name) === index);
  return [
    once.join(","),
    ...rest.filter((line) => !may.has(/^(\w+) \S+_try\d+$/.exec(line)?.[1] ?? "")),
  ].join("\n");
}

/** The log of a conversation and of its sub-agents, by id. */
export function readLogs(dataDir: string, id: string): Map<string, StoredRecord[]> {
  return new Map([id, ...listSubAgents(dataDir, id)].map((one) => [one, readLog(dataDir, one)]));
}

/** Ids of the sub-agents' conversations. */
export function listSubAgents(dataDir: string, conversationId: string): string[] {
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"), {
    readOnly: true,
    timeout: 5_000,
  });
  try {
    const rows = database
      .prepare("SELECT id FROM conversations WHERE parent_id = ? ORDER BY number")
      .all(conversationId);
    return rows.map(({ id }) => String(id));
  } finally {
    database.close();
  }
}
