import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Json } from "../../support/platform.ts";
import { interrupted, usage } from "./task.ts";

/** A record as the database has it. */
export interface Stored {
  listed: boolean;
  json: string;
  event: Json;
}

/** The log of a conversation as it is on the disk. */
export function storedLog(dataDir: string, conversationId: string): Stored[] {
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"), { readOnly: true });
  try {
    const rows = database
      .prepare(
        `SELECT listed_index, json FROM events WHERE conversation = (SELECT number FROM conversations WHERE id = ?) ORDER BY key`,
      )
      .all(conversationId) as { listed_index: number | null; json: string }[];
    return rows.map(({ listed_index, json }) => ({ listed: listed_index !== null, json, event: JSON.parse(json) }));
  } finally {
    database.close();
  }
}

const results = ["ObservationEvent", "AgentErrorEvent", "UserRejectObservation"];

/** Calls that have no result in a log, by id. */
export function openCalls(log: readonly Stored[]): Map<string, Json> {
  const open = new Map<string, Json>();
  for (const { event } of log) {
    if (event.kind === "ActionEvent") open.set(event.tool_call_id, event);
    else if (results.includes(event.kind)) open.delete(event.tool_call_id);
  }
  return open;
}

/** Tools that the server may run again by itself. */
const repeatable = ["think", "finish", "task_tracker", "glob", "grep", "task", "switch_llm"];

export interface Witness {
  /** What was on the disk when the server had died; empty: it did not. */
  before: readonly Stored[];
  /** What is there at the end. */
  after: readonly Stored[];
  /** Ids of the listed events that followers had been told of before. */
  announced: readonly string[];
  /** What the conversation shows at its end, and what it is to show; undefined for a sub-agent. */
  shown?: { is: string; expected: string };
  /** How many messages came of the user, where it is not one. */
  messages?: number;
  /** Somebody took part: the run rested and went on. */
  rested?: boolean;
}

/** What is not as it must be in a conversation whose server was killed, and that has ended. Empty when all is well. */
export function judge({ before, after, announced, shown, messages = 1, rested = false }: Witness): string[] {
  const wrong: string[] = [];
  const check = (text: string, is: unknown, wanted: unknown) => {
    if (JSON.stringify(is) !== JSON.stringify(wanted))
      wrong.push(`${text}: ${JSON.stringify(is)}, not ${JSON.stringify(wanted)}`);
  };
  const events = after.map(({ event }) => event);
  const ofKind = (kind: string) => events.filter((event) => event.kind === kind);
  const stored = new Set((before.length > 0 ? before : after).map(({ event }) => event.id));
  check(
    "announced and not stored",
    announced.filter((id) => !stored.has(id)),
    [],
  );
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
    const action = events.findIndex((other) => other.kind === "ActionEvent" && other.tool_call_id === event.tool_call_id);
    if (action > index || (event.action_id && event.action_id !== events[action]?.id))
      wrong.push(`a result of no action: ${event.id}`);
  }
  const unknown = events.filter((event) => event.kind === "AgentErrorEvent" && interrupted.test(event.error));
  const waits = statusOf(before) === "waiting_for_confirmation";
  const mayNotRunAgain = waits ? [] : [...openCalls(before).values()].filter((event) => !repeatable.includes(event.tool_name));
  check(
    "calls whose outcome is unknown",
    unknown.map((event) => event.tool_call_id).sort(),
    mayNotRunAgain.map((event) => event.tool_call_id).sort(),
  );

  const forgotten = ofKind("Condensation").flatMap((event) => event.forgotten_event_ids as string[]);
  check("forgotten twice", forgotten.length - new Set(forgotten).size, 0);
  check("summaries asked for and not made", ofKind("CondensationRequest").length > ofKind("Condensation").length, false);
  check("user messages", ofKind("MessageEvent").filter(({ source }) => source === "user").length, messages);
  check("system prompts", ofKind("SystemPromptEvent").length, 1);
  check(
    "errors",
    ofKind("ConversationErrorEvent").map(({ detail }) => detail),
    [],
  );
  const states = ofKind("ConversationStateUpdateEvent");
  const statuses = states.filter(({ key }) => key === "execution_status").map(({ value }) => value);
  check("statuses", rested ? [statuses[0], statuses.at(-1)] : statuses, ["running", "finished"]);
  check("the end", events.at(-1)?.value, "finished");
  const answers = new Set(ofKind("ActionEvent").map((event) => event.llm_response_id)).size;
  const counted = states.findLast(({ key }) => key === "stats")?.value.usage_to_metrics.agent.accumulated_token_usage;
  check("tokens", [counted?.prompt_tokens, counted?.completion_tokens], [usage.prompt * answers, usage.completion * answers]);
  if (shown) check("work", shown.is.trim(), shown.expected);
  return wrong;
}

/** The status that a log tells last. */
export function statusOf(log: readonly Stored[]): string | undefined {
  return log.findLast(({ event }) => event.key === "execution_status")?.event.value;
}

/** Ids of the sub-agents' conversations. */
export function partsOf(dataDir: string, conversationId: string): string[] {
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"), { readOnly: true });
  try {
    const rows = database.prepare("SELECT id FROM conversations WHERE parent_id = ? ORDER BY number").all(conversationId);
    return rows.map(({ id }) => String(id));
  } finally {
    database.close();
  }
}
