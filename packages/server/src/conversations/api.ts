import type { Skill } from "@sandpiper/agent/skills/skill";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type {
  AppConversation,
  AppConversationStartRequest,
  AppConversationStartTask,
  AppConversationUpdateRequest,
  ConfirmationPolicy,
  Content,
  ConversationInfo,
  ForkConversationRequest,
  GivenLlm,
  PatchConversationRequest,
  PluginSpec,
  ReportedConversation,
  ReportedEvent,
  SecretSource,
  SecurityAnalyzer,
  StartConversationRequest,
} from "@sandpiper/wire";
import type { ConversationFilter, ConversationPage, ConversationRow } from "../store/conversation-store.ts";
import type { StartTaskFilter } from "../store/start-task-store.ts";

/** What routes and sockets do with conversations. Ids are dashed; another user's conversation is an unknown one. */
export interface Conversations {
  /** Wakes what a former process left running and ends open start tasks. */
  open(): Promise<void>;

  /** Checks the request, stores a start task in state WORKING and goes on in the background. Throws ModelNotConfigured, SandboxNotFound, ConversationExists, InvalidParameter. */
  start(userId: string, request: AppConversationStartRequest): Promise<AppConversationStartTask>;
  /** The same; gives the task in every state as it reaches it. Who stops reading does not stop the start. */
  startStream(
    userId: string,
    request: AppConversationStartRequest,
  ): Promise<AsyncIterable<AppConversationStartTask>>;
  /**
   * Makes a conversation in a sandbox that is there (agent-server.md section 3); `created` is false where the id is taken by one of this sandbox.
   * Throws InvalidParameter, ProfileNotFound, ConversationExists, SandboxNotFound, OutboundFailed, OutboundRefused.
   */
  create(
    place: { userId: string; sandboxId: string },
    request: StartConversationRequest,
  ): Promise<{ row: ConversationRow; created: boolean }>;
  startTasks: {
    search(
      filter: StartTaskFilter,
      page: PageRequest & { sort: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC" },
    ): PageResult<AppConversationStartTask>;
    count(filter: StartTaskFilter): number;
    batch(userId: string, ids: readonly (string | undefined)[]): (AppConversationStartTask | null)[];
  };

  search(filter: ConversationFilter, page: PageRequest): PageResult<AppConversation>;
  /** The same as the JSON of a page; quick while nothing is written. */
  searchJson(filter: ConversationFilter, page: PageRequest): string;
  count(filter: ConversationFilter): number;
  batch(userId: string, ids: readonly (string | undefined)[]): (AppConversation | null)[];
  get(userId: string, id: string): ConversationRow | undefined;
  /** Changes what is given; null clears (app-server.md section 2.6). Throws ConversationNotFound, InvalidParameter. */
  update(userId: string, id: string, change: AppConversationUpdateRequest): Promise<AppConversation>;
  /** The records behind `search`, for readers that show them in another shape. */
  rows(filter: ConversationFilter, page: ConversationPage): PageResult<ConversationRow>;
  /** A conversation as the agent server shows it (agent-server.md section 3.2); `skills` shows those of a client's own agent too, which may be long. */
  info(row: ConversationRow, options?: { skills?: boolean }): ConversationInfo;
  /** What clients of the agent server change of a conversation. */
  readonly controls: ConversationControls;
  /**
   * Ends the run and removes the conversation with its sub-conversations; its sandbox goes too when no other conversation uses it, unless
   * `keepSandbox` says that it stays: then BadRequest where sub-conversations are in other sandboxes. Throws ConversationNotFound.
   */
  remove(userId: string, id: string, options?: { keepSandbox?: boolean }): Promise<void>;

  /** The skills that lie in the sandbox of a conversation now, and those that its agent has besides. Throws what `exec` throws. */
  skills(row: ConversationRow, sandbox: CommandRunner): Promise<Skill[]>;
  /** Lets the next model call use an LLM profile of the user. Throws ConversationNotFound, ProfileNotFound. */
  switchProfile(userId: string, id: string, profile: string): Promise<void>;

  /** Appends a user message; with `run` the agent is woken. Throws ConversationNotFound, ConversationArchived, MessageDelivered. */
  send(id: string, content: Content[], options: SendOptions): Promise<void>;
  /** Messages to conversations that are still being started (app-server.md section 2.8). */
  readonly pending: {
    /** Queues a message. Throws ConversationNotFound, ConversationExternal, ConversationArchived, StartTaskNotFound, StartFailed, TooManyMessages. */
    add(userId: string, target: string, content: Content[]): Promise<{ id: string; position: number }>;
  };
  /** Conversations that agent servers inside sandboxes run and report. */
  readonly external: ConversationReports;
  /** Starts the loop (also: approves what waits for confirmation). Throws ConversationRunning, ConversationArchived. */
  run(id: string): Promise<void>;
  /** Refuses every action that waits for confirmation; the agent does not go on by itself (agent-server.md section 4). */
  reject(id: string, reason: string): Promise<void>;
  /** Takes effect after the current step. */
  pause(id: string): Promise<void>;
  /** Cancels the model call and the tools that run. */
  interrupt(id: string): Promise<void>;

  /** Moves HEAD to an event, null: before all (agent-server.md section 3). Throws EventNotFound, ConversationRunning, GoalRunning, ConversationArchived, SandboxFailed. */
  navigate(id: string, eventId: string | null): Promise<FilesOutcome>;
  /** A conversation that begins as a copy, in the same sandbox. Throws EventNotFound, ConversationExists, InvalidParameter, ConversationArchived, SandboxFailed. */
  fork(id: string, request: ForkConversationRequest): Promise<{ row: ConversationRow } & FilesOutcome>;
  /**
   * Has the history summarised, at the next step where a run goes on; else now, and resolves when that is done. Too little history is fine.
   * Throws ConversationNotFound, ConversationArchived, ModelFailed.
   */
  condense(id: string): Promise<void>;
  /** Asks the agent beside its work; nothing of it enters the log but its cost. Throws what the model call throws, and BudgetReached. */
  ask(id: string, question: string): Promise<string>;
  /** A title for what the user wrote first, by the model that is given or the conversation's own; it is not stored. Throws BadRequest before the first message, and BudgetReached. */
  title(id: string, options: { max: number; llm?: GivenLlm | undefined }): Promise<string>;
  /** Goals that the agent pursues over several runs (agent-server.md section 3). */
  goal: {
    /** Throws BadRequest, GoalRunning, ConversationRunning, ConversationArchived. */
    start(id: string, objective: string, maxIterations: number): Promise<void>;
    stop(id: string): Promise<void>;
    /** Throws BadRequest, GoalRunning, ConversationRunning, ConversationArchived. */
    resume(id: string): Promise<void>;
  };

  /** Value of the `full_state` frame (agent-server.md section 6.1); never holds a secret. */
  fullState(id: string): Record<string, unknown>;
  /**
   * Follows a conversation live. Frames are JSON texts in order: stored events, state updates, deltas.
   * `seq` is set on frames that come from the log. `onDeleted` is called once the conversation is deleted. Gives the function that ends it.
   */
  follow(id: string, listener: (frame: Frame) => void, onDeleted: () => void): () => void;
  /** Number of followers now. */
  followers(id: string): number;

  /** Lets current steps end for `graceMs`, then leaves the rest to the next start. */
  close(graceMs: number): Promise<void>;
}

/** What clients of the agent server change of a conversation (agent-server.md section 3). */
export interface ConversationControls {
  describe(row: ConversationRow, change: PatchConversationRequest): Promise<void>;
  setPolicy(row: ConversationRow, policy: ConfirmationPolicy): Promise<void>;
  setAnalyzer(row: ConversationRow, analyzer: SecurityAnalyzer | null): Promise<void>;
  addSecrets(row: ConversationRow, sources: Readonly<Record<string, SecretSource>>): Promise<void>;
  switchLlm(row: ConversationRow, given: GivenLlm): Promise<void>;
  loadPlugin(row: ConversationRow, plugin: PluginSpec): Promise<void>;
}

/** Takes what an agent server inside a sandbox reports (app-server.md section 8). */
export interface ConversationReports {
  report(sandbox: SandboxRow, id: string, info: ReportedConversation): Promise<void>;
  take(sandbox: SandboxRow, id: string, events: readonly ReportedEvent[]): Promise<void>;
}

export interface SendOptions {
  run: boolean;
  sender?: string | undefined;
  /** Id of the pending message that this is; it is removed in the same transaction. */
  delivers?: string;
  /** Id of the message's event; default: a new one. */
  eventId?: string;
  /** The message is one of the conversation's goal; any other ends the pursuit of it. */
  ofGoal?: boolean;
}

/** What became of the files: those of a snapshot, or as they are. */
export interface FilesOutcome {
  /** Id of the snapshot. */
  restored: string | undefined;
}

export interface Frame {
  json: string;
  seq?: number;
  listed?: boolean;
}
