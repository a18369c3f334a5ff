import type { ParsedRecord } from "@sandpiper/agent/loop/log-record";
import { pathRuleOf } from "@sandpiper/agent/skills/path-rules";
import type {
  ActionEvent,
  ExecutionStatus,
  HookExecutionEvent,
  MessageEvent,
  Stats,
  TaskItem,
} from "@sandpiper/wire";

/** The state of a conversation: a fold over its log, and nothing else. */
export interface ConversationState {
  seq: number;
  status: ExecutionStatus;
  /** The last record that said `running`. */
  runningSeq: number;
  stats: Stats;
  /** The log has a SystemPromptEvent. */
  initialised: boolean;
  lastUserMessageId: string | undefined;
  lastUserMessageSeq: number;
  /** The last record that is neither a message of the user nor an action: the next model call comes after it. */
  lastOtherSeq: number;
  /** Up to here the model had certainly read when it made the actions that are open. */
  readSeq: number;
  leafEventId: string | undefined;
  /** Actions without a result, in order, by tool call id. */
  openActions: Map<string, ActionEvent>;
  /** Ids of open actions that wait for the user's approval, also while the conversation is paused. */
  waiting: Set<string>;
  /** Ids of open actions that waited for the user, who wrote in the moment in which they began to. */
  unanswered: Set<string>;
  /** The agent's task list as its last plan left it. */
  taskList: TaskItem[];
  /** Messages of the user that no hook has seen, since the agent's last event or, where hooks saw one before, since that. */
  unchecked: MessageEvent[];
  /** Hooks have seen a message of the user. */
  checksMessages: boolean;
  /** The agent has ended its turn, and no status says so yet. */
  turnOver: boolean;
  /** Names of the rules that results brought along, and of the skills that the agent has read. */
  pathRules: Set<string>;
  invokedSkills: Set<string>;
  /** Why hooks blocked them, by the ids of actions and of messages. */
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

/** Takes the next record into the state (in place). Records must come in order. */
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
        const rule = pathRuleOf(text);
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
  }
}

/** An approval says `running` twice in one append: the user may have written right before it, and the actions that waited are not unanswered then. */
function applyStatus(state: ConversationState, status: ExecutionStatus, seq: number): void {
  const open = [...state.openActions.values()].map(({ id }) => id);
  // Where it is a sub-agent that asks, the newest event is its question.
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
    if (state.runningSeq === seq - 1) state.unanswered = new Set();
    state.runningSeq = seq;
  }
  state.status = status;
}

/** What the agent has answered to needs no hook any more, where there were none. */
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

/** Most blocked actions and messages that are remembered each, the newest, and characters of a reason. */
const maxBlocked = 200;
const maxReasonChars = 1_000;

function addBlocked(blocked: Record<string, string>, id: string, reason: string): void {
  blocked[id] = reason.slice(0, maxReasonChars);
  const ids = Object.keys(blocked);
  if (ids.length > maxBlocked) delete blocked[ids[0]!];
}

/** What of the state clients are shown of a sleeping conversation too. */
export function pickFacts({
  pathRules,
  invokedSkills,
  blockedActions,
  blockedMessages,
}: ConversationState): FoldedFacts {
  return { pathRules: [...pathRules], invokedSkills: [...invokedSkills], blockedActions, blockedMessages };
}

/** Parts of a conversation's state that nothing else tells of a sleeping one (agent-server.md section 6.1). */
export interface FoldedFacts {
  pathRules: string[];
  invokedSkills: string[];
  blockedActions: Record<string, string>;
  blockedMessages: Record<string, string>;
}
