import type { Skill } from "@sandpiper/agent/skills/skill";
import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type {
  AppConversation,
  AppConversationStartRequest,
  AppConversationStartTask,
  AppConversationUpdateRequest,
  Behaviour,
  ConfirmationPolicy,
  Content,
  ConversationInfo,
  FetchPluginRequest,
  FetchPluginResponse,
  ForkConversationRequest,
  GivenLlm,
  PatchConversationRequest,
  PluginSpec,
  ReportedConversation,
  ReportedEvent,
  SecretSource,
  SecurityAnalyzer,
  StartChildRequest,
  StartConversationRequest,
} from "@sandpiper/wire";
import type { ConversationFilter, ConversationPage, ConversationRow } from "../store/conversation-store.ts";
import type { SandboxScope } from "../store/sandbox-scope.ts";
import type { StartTaskFilter } from "../store/start-task-store.ts";
import type { Viewer } from "../users/api.ts";

/** A project in a sandbox. */
export interface ProjectPlace {
  userId: string;
  sandboxId: string;
  /** Folder of the project in the sandbox. */
  workingDir: string;
  /** Folders of its plugins in the sandbox. */
  plugins: readonly string[];
  /** Where it comes from, if the server or its user knows; default: the sandbox. */
  origin?: string | undefined;
  /** The folder of which it is a worktree; its origin is that of the folder. */
  worktreeOf?: string | undefined;
}

/**
 * The conversations of all users. Ids are dashed; the id of another user's conversation is unknown.
 */
export interface Conversations {
  readonly starts: ConversationStarts;
  readonly reads: ConversationQueries;
  readonly commands: ConversationCommands;
  readonly branches: ConversationBranches;
  readonly live: ConversationFeed;
  readonly sideCalls: ConversationSideCalls;
  readonly goals: ConversationGoals;
  readonly settings: ConversationControls;
  /** Conversations that agent servers inside sandboxes run and report. */
  readonly reports: ConversationReports;
  /** Messages to conversations that are still starting (app-server.md section 2.8). */
  readonly pending: {
    /**
     * Queues a message. Throws ConversationNotFound, ConversationExternal, ConversationArchived,
     * StartTaskNotFound, StartFailed, TooManyMessages.
     */
    add(userId: string, target: string, content: Content[]): Promise<{ id: string; position: number }>;
    /** Delivers the messages of a conversation in order. Never rejects. */
    deliver(conversationId: string): Promise<void>;
  };

  /**
   * Continues what an earlier server or another node has left of the conversations in sandboxes:
   * starts, runs, goals and pending messages. Leaves alone what continues already. Never rejects:
   * the server repeats failed steps in the background. `losses` says for each sandbox whose machine
   * was lost what is lost; open calls in it report that.
   */
  adopt(scope: SandboxScope, losses?: ReadonlyMap<string, string>): Promise<void>;
  /**
   * Continues the starts that this node owns, and those without a sandbox whose node has ended.
   * Never rejects.
   */
  adoptStarts(): Promise<void>;
  /**
   * Ends everything live about the conversations in sandboxes, so that another node can continue
   * them. Their commands go on. `lost`: another node may own the sandboxes already, so this node
   * writes nothing and lets no step end first; otherwise current steps have `graceMs`. Callers and
   * followers get SandboxMoved or an end of their connection. Never rejects, and takes at most some
   * seconds more than `graceMs`.
   */
  release(sandboxIds: readonly string[], how: { lost: boolean; graceMs: number }): Promise<void>;
  /**
   * Changes the given fields; null clears one (app-server.md section 2.6). Throws
   * ConversationNotFound, InvalidParameter.
   */
  update(viewer: Viewer, id: string, change: AppConversationUpdateRequest): Promise<AppConversation>;
  /** The skills in the sandbox now, and the skills of the agent. Throws what `exec` throws. */
  skills(row: ConversationRow, sandbox: CommandRunner): Promise<Skill[]>;
  /**
   * Fetches a plugin into a sandbox, which it wakes, and describes it; nothing of it runs. Throws
   * InvalidParameter, PluginFetchFailed, PluginFetchTimeout, and what resolving the secrets and
   * `exec` throw.
   */
  fetchPlugin(
    target: { userId: string; sandboxId: string },
    request: FetchPluginRequest,
  ): Promise<FetchPluginResponse>;
  /**
   * Finds what a project in a sandbox does by itself; undefined when it only describes. Throws what
   * `exec` throws.
   */
  findBehaviour(place: ProjectPlace, sandbox: CommandRunner): Promise<Behaviour | undefined>;
  /**
   * Uses an LLM profile of the user from the next model call on. Throws ConversationNotFound,
   * ProfileNotFound.
   */
  switchProfile(userId: string, id: string, profile: string): Promise<void>;
  /**
   * Ends the run and removes the conversation with its sub-conversations, and its sandbox unless
   * another conversation uses it or `keepSandbox` is set. Throws ConversationNotFound, and
   * BadRequest when `keepSandbox` is set and a sub-conversation is in another sandbox.
   */
  remove(userId: string, id: string, options?: { keepSandbox?: boolean }): Promise<void>;
  /** Lets current steps end for `graceMs`; the next process continues the rest. */
  close(graceMs: number): Promise<void>;
}

export interface ConversationStarts {
  /**
   * The sandbox that a start without a named sandbox shares by the user's setting; undefined when
   * it creates one. `isHere`: sandboxes of this node come first. Nothing has validated the request.
   */
  findShared(
    userId: string,
    request: AppConversationStartRequest,
    where: { isHere: boolean },
  ): Promise<string | undefined>;
  /**
   * Checks the request, stores a start task in state WORKING and continues in the background.
   * Throws ModelNotConfigured, SandboxNotFound, ConversationExists, InvalidParameter, and
   * SandboxElsewhere when another node owns the sandbox that the conversation shares.
   */
  start(userId: string, request: AppConversationStartRequest): Promise<AppConversationStartTask>;
  /**
   * Like `start`; yields the task in each of its states. The start continues when the reader stops.
   */
  startStream(
    userId: string,
    request: AppConversationStartRequest,
  ): Promise<AsyncIterable<AppConversationStartTask>>;
  /**
   * Creates a conversation in an existing sandbox (agent-server.md section 3). `created` is false
   * when the id belongs to a conversation of this sandbox. Throws InvalidParameter,
   * ProfileNotFound, ConversationExists, SandboxNotFound, OutboundFailed, OutboundRefused.
   */
  create(
    target: { userId: string; sandboxId: string },
    request: StartConversationRequest,
    trace?: TraceContext,
  ): Promise<{ row: ConversationRow; created: boolean }>;
  readonly tasks: {
    search(
      filter: StartTaskFilter,
      page: PageRequest & { sort: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC" },
    ): Promise<PageResult<AppConversationStartTask>>;
    count(filter: StartTaskFilter): Promise<number>;
    batch(userId: string, ids: readonly (string | undefined)[]): Promise<(AppConversationStartTask | null)[]>;
  };
}

export interface ConversationQueries {
  search(filter: ConversationFilter, page: PageRequest, viewer: Viewer): Promise<PageResult<AppConversation>>;
  /** The page as JSON; cached until the next write. */
  searchJson(filter: ConversationFilter, page: PageRequest, viewer: Viewer): Promise<string>;
  count(filter: ConversationFilter): Promise<number>;
  batch(viewer: Viewer, ids: readonly (string | undefined)[]): Promise<(AppConversation | null)[]>;
  get(userId: string, id: string): Promise<ConversationRow | undefined>;
  /** The rows behind `search`. */
  rows(filter: ConversationFilter, page: ConversationPage): Promise<PageResult<ConversationRow>>;
  /**
   * The agent server's form of a conversation (agent-server.md section 3.2). `skills` includes the
   * skills of a client's own agent, which may be long.
   */
  info(row: ConversationRow, options?: { skills?: boolean }): Promise<ConversationInfo>;
}

export interface ConversationCommands {
  /**
   * Appends a user message; with `run` it wakes the agent. Throws ConversationNotFound,
   * ConversationArchived, MessageDelivered.
   */
  send(id: string, content: Content[], options: SendOptions): Promise<void>;
  /**
   * Like `send`, but does nothing when the conversation has an event with the id `eventId`, so that
   * a client can repeat a request without an answer.
   */
  sendOnce(id: string, content: Content[], options: SendOptions & { eventId: string }): Promise<void>;
  /**
   * Starts a run, or approves the waiting actions. Throws ConversationRunning,
   * ConversationArchived.
   */
  run(id: string): Promise<void>;
  /**
   * Rejects the waiting actions; the agent does not continue by itself (agent-server.md section 4).
   */
  reject(id: string, reason: string): Promise<void>;
  /** Takes effect after the current step. */
  pause(id: string): Promise<void>;
  /** Cancels the model call and the running tools. */
  interrupt(id: string): Promise<void>;
}

export interface ConversationBranches {
  /**
   * Moves HEAD to an event; null: before the first one (agent-server.md section 3). Throws
   * EventNotFound, ConversationRunning, GoalRunning, ConversationArchived, SandboxFailed.
   */
  navigate(id: string, eventId: string | null): Promise<FilesOutcome>;
  /**
   * Creates a conversation in the same sandbox that begins as a copy. Throws EventNotFound,
   * ConversationExists, InvalidParameter, ConversationArchived, SandboxFailed.
   */
  fork(id: string, request: ForkConversationRequest): Promise<{ row: ConversationRow } & FilesOutcome>;
  /**
   * Creates a conversation below this one with its agent and secrets, and runs it with a task.
   * Throws ConversationExternal, ConversationArchived, SandboxFailed, GitFailed.
   */
  startChild(id: string, request: StartChildRequest): Promise<StartedChild>;
}

export interface ConversationFeed {
  /** The value of the `full_state` frame (agent-server.md section 6.1); it contains no secret. */
  fullState(id: string): Promise<Record<string, unknown>>;
  /** The value of the `goal` frame; undefined without a goal. */
  goal(id: string): Promise<Record<string, unknown> | undefined>;
  /**
   * Subscribes to stored events, state updates and deltas, in order. Returns the function that ends
   * the subscription; `lost`: the client did not end it, and probably comes back.
   */
  follow(id: string, follower: Follower): (lost?: boolean) => void;
  /**
   * Whether a client that comes back may have missed the end of a run; undefined when no client has
   * lost its connection a short time ago.
   */
  mayMissEnd(id: string): boolean | undefined;
  /** The number of subscribers. */
  followers(id: string): number;
  /** Notes what a client reads, which tells whether it has missed the end of its run. */
  noteRead(id: string, what: "state" | "events"): void;
}

/** Model calls outside the run; the log gets only their cost. */
export interface ConversationSideCalls {
  /** Asks the agent a question. Throws what the model call throws, and BudgetReached. */
  ask(id: string, question: string): Promise<string>;
  /**
   * A title for the first user message, by the given model or the conversation's own; it is not
   * stored. Throws BadRequest before the first message, and BudgetReached.
   */
  title(id: string, options: { max: number; llm?: GivenLlm | undefined }): Promise<string>;
  /**
   * Condenses the history: with the next step of a running conversation, else now, and resolves
   * when that is done. Does nothing when the history is short. Throws ConversationNotFound,
   * ConversationArchived, ModelFailed.
   */
  condense(id: string): Promise<void>;
}

/** Goals that the agent pursues over several runs (agent-server.md section 3). */
export interface ConversationGoals {
  /** Throws BadRequest, GoalRunning, ConversationRunning, ConversationArchived. */
  start(id: string, objective: string, maxIterations: number): Promise<void>;
  stop(id: string): Promise<void>;
  /** Throws BadRequest, GoalRunning, ConversationRunning, ConversationArchived. */
  resume(id: string): Promise<void>;
}

/** Changes of a conversation by agent-server clients (agent-server.md section 3). */
export interface ConversationControls {
  describe(row: ConversationRow, change: PatchConversationRequest): Promise<void>;
  setPolicy(row: ConversationRow, policy: ConfirmationPolicy): Promise<void>;
  setAnalyzer(row: ConversationRow, analyzer: SecurityAnalyzer | null): Promise<void>;
  addSecrets(row: ConversationRow, sources: Readonly<Record<string, SecretSource>>): Promise<void>;
  switchLlm(row: ConversationRow, llm: GivenLlm): Promise<void>;
  loadPlugin(row: ConversationRow, plugin: PluginSpec): Promise<void>;
}

/** Reports of agent servers inside sandboxes (app-server.md section 8). */
export interface ConversationReports {
  report(sandbox: SandboxRow, id: string, info: ReportedConversation): Promise<void>;
  take(sandbox: SandboxRow, id: string, events: readonly ReportedEvent[]): Promise<void>;
}

export interface SendOptions {
  run: boolean;
  sender?: string | undefined;
  /** Id of the pending message that this delivers; it is removed in the same transaction. */
  delivers?: string;
  /** Id of the message's event; default: a new one. */
  eventId?: string;
  /** The message belongs to the conversation's goal; any other message stops the goal. */
  ofGoal?: boolean;
}

export interface StartedChild {
  row: ConversationRow;
  /** `shared`: it works in the folder of its parent. */
  isolation: "worktree" | "shared";
}

/** Whether the files were restored. */
export interface FilesOutcome {
  /** Id of the snapshot that they were restored from. */
  restored: string | undefined;
}

/** A subscriber. It must not block; it queues by itself. */
export interface Follower {
  onFrame(frame: Frame): void;
  /** Called once the conversation is deleted; no frame follows. */
  onDeleted(): void;
  /**
   * The hub calls this once another node owns the conversation; no frame follows, and the client
   * gets the rest from that node.
   */
  onMoved?(): void;
  /**
   * Resolves when the client has handled the full states that were sent to it, or does not say so
   * in time. Absent where a client cannot tell.
   */
  settle?(): Promise<void>;
  /** Resolves when the client has answered two pings, or does not do so in time. */
  echo?(): Promise<void>;
}

/** One JSON text to subscribers. */
export interface Frame {
  json: string;
  /** The frame is a full state, which a client may take for the end of a run. */
  isFullState?: boolean;
  /** Before the client handles the frame, it reads the events that it missed. */
  isLate?: boolean;
  /** Set when the frame comes from the log. */
  seq?: number;
  listed?: boolean;
}
