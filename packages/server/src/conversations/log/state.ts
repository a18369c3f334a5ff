import type { ParsedRecord } from "@sandpiper/agent/loop/log-record";
import { begunKey } from "@sandpiper/agent/loop/status";
import { getRuleName } from "@sandpiper/agent/skills/path-rules";
import type {
  ActionEvent,
  ExecutionStatus,
  HookExecutionEvent,
  MessageEvent,
  Stats,
  TaskItem,
} from "@sandpiper/wire";

/** The state of a conversation: a pure fold over its log. */
export interface ConversationState {
  seq: number;
  status: ExecutionStatus;
  /** The last record with the status `running`. */
  runningSeq: number;
  stats: Stats;
  /** The log has a SystemPromptEvent. */
  initialised: boolean;
  lastUserMessageId: string | undefined;
  lastUserMessageSeq: number;
  /**
   * The last record that is neither a user message nor an action; the next model call follows it.
   */
  lastOtherSeq: number;
  /** The model had read at least this far when it made the open actions. */
  readSeq: number;
  leafEventId: string | undefined;
  /** Actions without a result, in order, by tool call id. */
  openActions: Map<string, ActionEvent>;
  /** Ids of the open actions that wait for approval, also while the conversation is paused. */
  waiting: Set<string>;
  /**
   * Ids of the open actions that the user answered with a message at the moment they began to wait.
   */
  unanswered: Set<string>;
  /** Ids of the open actions that the user approved and that have not begun. */
  approved: Set<string>;
  /** The agent's current task list. */
  taskList: TaskItem[];
  /**
   * User messages that no hook has checked, since the last agent event or the last checked message.
   */
  unchecked: MessageEvent[];
  /** A hook has checked a user message. */
  checksMessages: boolean;
  /** The agent has ended its turn, but the status does not say so yet. */
  turnOver: boolean;
  /** Names of the path rules in results, and of the skills that the agent has read. */
  pathRules: Set<string>;
  invokedSkills: Set<string>;
  /** Reasons of hooks, by the ids of the blocked actions and messages. */
  blockedActions: Record<string, string>;
  blockedMessages: Record<string, string>;
}

export function emptyState(): ConversationState {
  return {
    seq: 0,
    status: "idle",
    runningSeq: 0,
    stats: { usage_to_metrics: {} },
    initialised: false,
    lastUserMessageId: undefined,
    lastUserMessageSeq: 0,
    lastOtherSeq: 0,
    readSeq: 0,
    leafEventId: undefined,
    openActions: new Map(),
    waiting: new Set(),
    unanswered: new Set(),
    approved: new Set(),
    taskList: [],
    unchecked: [],
    checksMessages: false,
    turnOver: false,
    pathRules: new Set(),
    invokedSkills: new Set(),
    blockedActions: {},
    blockedMessages: {},
  };
}

/** Adds the next record to the state (in place). Records must come in order. */
export function fold(state: ConversationState, { seq, listed, event }: ParsedRecord): void {
  state.seq = seq;
  if (listed) state.leafEventId = event.id;
  if (event.kind === "ActionEvent")
    state.readSeq = state.openActions.size > 0 ? state.readSeq : state.lastOtherSeq;
  else if (event.kind !== "MessageEvent" || event.source !== "user") state.lastOtherSeq = seq;
  switch (event.kind) {
    case "SystemPromptEvent":
      state.initialised = true;
      return;
    case "MessageEvent":
      state.turnOver = event.source === "agent" && event.llm_message.content.length > 0;
      if (event.source === "agent") clearUnchecked(state);
      if (event.source !== "user") return;
      state.lastUserMessageId = event.id;
      state.lastUserMessageSeq = seq;
      state.unchecked.push(event);
      return;
    case "ActionEvent":
      clearUnchecked(state);
      state.openActions.set(event.tool_call_id, event);
      return;
    case "ObservationEvent":
      if (event.observation.kind === "TaskTrackerObservation") state.taskList = event.observation.task_list;
      if (event.observation.kind === "InvokeSkillObservation" && !event.observation.is_error)
        state.invokedSkills.add(event.observation.skill_name);
      if (event.observation.kind === "FinishObservation") state.turnOver = true;
      for (const { text } of event.extended_content ?? []) {
        const rule = getRuleName(text);
        if (rule !== undefined) state.pathRules.add(rule);
      }
      state.openActions.delete(event.tool_call_id);
      return;
    case "AgentErrorEvent":
    case "UserRejectObservation":
      state.openActions.delete(event.tool_call_id);
      return;
    case "HookExecutionEvent":
      return applyHookExecution(state, event);
    case "ConversationStateUpdateEvent":
      if (event.key === "execution_status") applyStatus(state, event.value as ExecutionStatus, seq);
      if (state.status === "finished") state.turnOver = false;
      if (event.key === "stats") state.stats = event.value as Stats;
      if (event.key === begunKey) state.approved = new Set();
  }
}

/**
 * An approval writes `running` twice in one append, so that a message right before it does not
 * count as the answer to the waiting actions. A run that is stopped before the approved actions
 * begin asks for the approval again.
 */
function applyStatus(state: ConversationState, status: ExecutionStatus, seq: number): void {
  const open = [...state.openActions.values()].map(({ id }) => id);
  // When a sub-agent is waiting, the newest event is its question, not one of our open actions.
  if (status === "waiting_for_confirmation")
    state.waiting = new Set(open.includes(state.leafEventId ?? "") ? open : []);
  const wrote = state.lastUserMessageSeq === seq - 1;
  if (status === "running" && state.status === "waiting_for_confirmation") {
    state.unanswered = new Set(wrote ? open : []);
    state.waiting = new Set();
  } else if (status === "running" && wrote && state.waiting.size > 0) {
    state.unanswered = state.waiting;
    state.waiting = new Set();
  }
  if (status === "running") {
    if (state.runningSeq === seq - 1) {
      state.unanswered = new Set();
      state.approved = new Set(open);
    }
    state.runningSeq = seq;
  } else if (state.approved.size > 0) {
    if (status !== "waiting_for_confirmation") state.waiting = state.approved;
    state.approved = new Set();
  }
  state.status = status;
}

/** Without hooks, a message that the agent answers needs no check. */
function clearUnchecked(state: ConversationState): void {
  if (!state.checksMessages) state.unchecked = [];
}

function applyHookExecution(state: ConversationState, event: HookExecutionEvent): void {
  const { message_id: message, action_id: action, blocked, reason = "" } = event;
  if (message !== undefined) {
    state.checksMessages = true;
    state.unchecked = state.unchecked.slice(state.unchecked.findIndex(({ id }) => id === message) + 1);
  }
  if (!blocked) return;
  if (message !== undefined) addBlocked(state.blockedMessages, message, reason);
  if (action !== undefined && event.hook_event_type === "PreToolUse")
    addBlocked(state.blockedActions, action, reason);
}

/** Maximum number of remembered blocked actions and messages each, and characters of a reason. */
const maxBlocked = 200;
const maxReasonChars = 1_000;

function addBlocked(blocked: Record<string, string>, id: string, reason: string): void {
  blocked[id] = reason.slice(0, maxReasonChars);
  const ids = Object.keys(blocked);
  if (ids.length > maxBlocked) delete blocked[ids[0]!];
}

/** The facts that clients also see of a sleeping conversation. */
export function pickFacts({
  pathRules,
  invokedSkills,
  blockedActions,
  blockedMessages,
}: ConversationState): FoldedFacts {
  return { pathRules: [...pathRules], invokedSkills: [...invokedSkills], blockedActions, blockedMessages };
}

/** State that a sleeping conversation keeps besides its row (agent-server.md section 6.1). */
export interface FoldedFacts {
  pathRules: string[];
  invokedSkills: string[];
  blockedActions: Record<string, string>;
  blockedMessages: Record<string, string>;
}
