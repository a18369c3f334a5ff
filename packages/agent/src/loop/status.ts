import { type ExecutionStatus, executionStatuses } from "@sandpiper/wire";
import type { NewRecord } from "./log-record.ts";
import { listed } from "./records.ts";

export type StatusCommand = keyof typeof transitions;

/** Next status by current status; missing entries change nothing. */
type Transition = Partial<Record<ExecutionStatus, ExecutionStatus>>;

/** Every transition of `execution_status` (agent-server.md section 4). */
const transitions = {
  /** A user message without a run. */
  message: { finished: "idle", stuck: "idle" },
  /** A user message that starts a run; an ending run may miss it, so the record starts one. */
  messageAndRun: fromAny("running"),
  run: { idle: "running", paused: "running", error: "running", stuck: "running" },
  approve: { waiting_for_confirmation: "running" },
  reject: { waiting_for_confirmation: "idle" },
  /** The user answered the waiting sub-agents. */
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
  /** Actions or a sub-agent wait for the user. */
  awaitApproval: fromAny("waiting_for_confirmation"),
  finish: fromAny("finished"),
  /** A message arrived during the last step. */
  reopen: { finished: "running" },
  /** No user message to answer. */
  nothingToDo: { running: "idle" },
  repetition: fromAny("stuck"),
  fail: fromAny("error"),
} as const satisfies Record<string, Transition>;

/**
 * The records of a status change; empty when nothing changes. Pause and interrupt have their own
 * event. An approval is written twice, because a single record after a message rejects the actions.
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

/** The state field in the record that `approvedBegin` makes. */
export const begunKey = "leaf_event_id";

/**
 * The record before approved actions begin: no run after it begins them again. It names the last of
 * them, which is the newest event.
 */
export function approvedBegin(lastActionId: string): NewRecord {
  return {
    listed: false,
    event: {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key: begunKey,
      value: lastActionId,
    },
  };
}

/** Records of a run that cannot continue. */
export function failure(code: string, detail: string): NewRecord[] {
  const event = { kind: "ConversationErrorEvent", source: "environment", code, detail } as const;
  return [listed(event), ...transition("running", "fail")];
}

/** Record of a status reported by an agent server in a sandbox; empty when unchanged. */
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
