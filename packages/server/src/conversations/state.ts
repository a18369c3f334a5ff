import type { ActionEvent, ExecutionStatus, Stats, TaskItem } from "@sandpiper/wire";
import type { LogRecord } from "../store/event-log.ts";

/** The state of a conversation: a fold over its log, and nothing else. */
export interface ConversationState {
  seq: number;
  status: ExecutionStatus;
  stats: Stats;
  /** The log has a SystemPromptEvent. */
  initialised: boolean;
  lastUserMessageId: string | undefined;
  lastUserMessageSeq: number;
  leafEventId: string | undefined;
  /** Actions without a result, in order, by tool call id. */
  open: Map<string, ActionEvent>;
  /** The agent's task list as its last plan left it. */
  taskList: TaskItem[];
}

export function emptyState(): ConversationState {
  return {
    seq: 0,
    status: "idle",
    stats: { usage_to_metrics: {} },
    initialised: false,
    lastUserMessageId: undefined,
    lastUserMessageSeq: 0,
    leafEventId: undefined,
    open: new Map(),
    taskList: [],
  };
}

/** Takes the next record into the state (in place). Records must come in order. */
export function fold(state: ConversationState, { seq, listed, event }: LogRecord): void {
  state.seq = seq;
  if (listed) state.leafEventId = event.id;
  switch (event.kind) {
    case "SystemPromptEvent":
      state.initialised = true;
      return;
    case "MessageEvent":
      if (event.source !== "user") return;
      state.lastUserMessageId = event.id;
      state.lastUserMessageSeq = seq;
      return;
    case "ActionEvent":
      state.open.set(event.tool_call_id, event);
      return;
    case "ObservationEvent":
      if (event.observation.kind === "TaskTrackerObservation") state.taskList = event.observation.task_list;
      state.open.delete(event.tool_call_id);
      return;
    case "AgentErrorEvent":
    case "UserRejectObservation":
      state.open.delete(event.tool_call_id);
      return;
    case "ConversationStateUpdateEvent":
      if (event.key === "execution_status") state.status = event.value as ExecutionStatus;
      if (event.key === "stats") state.stats = event.value as Stats;
  }
}
