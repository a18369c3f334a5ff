import { type ExecutionStatus, executionStatuses } from "@sandpiper/wire";
import type { NewRecord } from "./log-record.ts";
import { listed } from "./records.ts";

/** What changes the status of a conversation. */
export type StatusCommand = keyof typeof transitions;

/** The next status, by the current one. A status without an entry does not change. */
type Transition = Partial<Record<ExecutionStatus, ExecutionStatus>>;

/** Every transition of `execution_status` (agent-server.md section 4). */
const transitions = {
  /** A user message, without a request to run. */
  message: { finished: "idle", stuck: "idle" },
  /** A user message that starts a run. A run that is ending may miss it: the record starts the next one. */
  messageAndRun: fromAny("running"),
  run: { idle: "running", paused: "running", error: "running", stuck: "running" },
  /** The user approves the actions that wait. */
  approve: { waiting_for_confirmation: "running" },
  /** The user rejects the actions that wait. */
  reject: { waiting_for_confirmation: "idle" },
  /** The sub-agents that waited for the user have their answer. */
  subAgentsAnswered: { waiting_for_confirmation: "running" },
  pause: { idle: "paused", running: "paused" },
  interrupt: fromAny("paused"),
  navigate: {
    running: "idle",
    waiting_for_confirmation: "idle",
    finished: "idle",
    error: "idle",
    stuck: "idle",
  },
  /** Actions, or a sub-agent, wait for the user. */
  awaitApproval: fromAny("waiting_for_confirmation"),
  finish: fromAny("finished"),
  /** A message arrived during the last step of the turn. */
  reopen: { finished: "running" },
  /** There is no user message to answer. */
  nothingToDo: { running: "idle" },
  repetition: fromAny("stuck"),
  fail: fromAny("error"),
} as const satisfies Record<string, Transition>;

/**
 * The records of a status change; none when the command changes nothing. Pause and interrupt have an event of their own.
 * An approval is written twice: one record right after a message means that the message rejects the waiting actions.
 */
export function transition(status: ExecutionStatus, command: StatusCommand): NewRecord[] {
  const next = (transitions[command] as Transition)[status];
  if (next === undefined) return [];
  if (command === "approve") return [statusRecord(next), statusRecord(next)];
  if (command === "pause") return [listed({ kind: "PauseEvent", source: "user" }), statusRecord(next)];
  if (command === "interrupt")
    return [listed({ kind: "InterruptEvent", source: "user" }), statusRecord(next)];
  return [statusRecord(next)];
}

/** The records of a run that cannot continue: the error and the status. */
export function failure(code: string, detail: string): NewRecord[] {
  const event = { kind: "ConversationErrorEvent", source: "environment", code, detail } as const;
  return [listed(event), ...transition("running", "fail")];
}

/** The record of a status that an agent server in a sandbox reports; none when it is the current one. */
export function reportedStatus(status: ExecutionStatus, reported: ExecutionStatus): NewRecord[] {
  return status === reported ? [] : [statusRecord(reported)];
}

function statusRecord(value: ExecutionStatus): NewRecord {
  return {
    listed: false,
    event: { kind: "ConversationStateUpdateEvent", source: "environment", key: "execution_status", value },
  };
}

function fromAny(next: ExecutionStatus): Transition {
  return Object.fromEntries(executionStatuses.map((status) => [status, next]));
}
