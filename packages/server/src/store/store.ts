import type {
  ClientTool,
  ConfirmationPolicy,
  Content,
  ExecutionStatus,
  GivenAgent,
  GivenLlm,
  MetricsSnapshot,
  SecurityAnalyzer,
  StartTaskStatus,
  Stats,
} from "@sandpiper/wire";
import type { Span } from "./branch.ts";
import type { Changes } from "./changes.ts";
import type { EventLog } from "./event-log.ts";

/**
 * Everything that outlives the process. Ids are dashed UUIDs, times are milliseconds since the epoch.
 * Reads are synchronous and cheap (one indexed statement); writes resolve once they are durable.
 */
export interface Store {
  readonly events: EventLog;
  readonly conversations: ConversationStore;
  readonly startTasks: StartTaskStore;
  readonly sandboxes: SandboxStore;
  readonly snapshots: SnapshotStore;
  readonly pendingMessages: PendingMessageStore;
  readonly contexts: ContextStore;
  readonly agents: ConversationAgentStore;
  readonly settings: DocumentStore;
  readonly userSecrets: DocumentStore;
  readonly conversationSecrets: ConversationSecretStore;
  readonly apiKeys: ApiKeyStore;
  readonly changes: Pick<Changes, "version" | "of">;
  readonly logins: LoginStore;
  readonly spending: SpendingStore;
  readonly callbacks: CallbackStore;
  /** Writes what is queued and releases the files and the lock of the data folder. */
  close(): Promise<void>;
}

export interface PageRequest {
  /** Decimal offset; anything else restarts at 0 (app-server.md section 0). */
  pageId?: string | undefined;
  limit: number;
}

export interface PageResult<T> {
  items: T[];
  nextPageId: string | null;
}

export interface ConversationRow {
  id: string;
  userId: string;
  sandboxId: string;
  /** Secretless configuration of this conversation's agent: model name, repository, tags … as given at the start. */
  config: ConversationConfig;
  title: string | null;
  parentId: string | null;
  createdAt: number;
  updatedAt: number;
  summary: ConversationSummary;
  /** The event to which the next one is appended, where the conversation was navigated; empty: none. Null: the newest one. */
  head: string | null;
}

export interface ConversationConfig {
  llmModel: string | null;
  /** The LLM profile of the settings to which the conversation was switched; it goes before `llmModel`. */
  llmProfile?: string | null;
  selectedRepository: string | null;
  selectedBranch: string | null;
  gitProvider: string | null;
  trigger: string | null;
  prNumber: number[];
  public: boolean | null;
  tags: Record<string, string>;
  agentType: "default" | "plan";
  systemMessageSuffix: string | null;
  workingDir: string;
  maxIterations: number;
  /** The agent profile of the start, and the skills that it switches off. */
  launchedProfile?: { id: string; revision: number } | undefined;
  disabledSkills?: readonly string[] | undefined;
  /** A client gave the agent with the conversation: `agents` of the store has it, and `llmModel` is its model's name. */
  ownAgent?: boolean;
  /** Counts the models to which the conversation was switched. */
  llmRevision?: number;
  /** In the place of what the user's settings say; `securityAnalyzer` null is none. */
  confirmationPolicy?: ConfirmationPolicy;
  securityAnalyzer?: SecurityAnalyzer | null;
  stuckDetection?: boolean;
  titleLlmProfile?: string | null;
  /** False: the first message gives no title. */
  autotitle?: boolean;
  goal?: Goal;
  /** What the conversation began as a copy of, up to and including the event. */
  forkedFrom?: { conversationId: string; eventId: string | null };
  /** An agent server inside the sandbox runs the conversation and reports it here (app-server.md section 8). */
  external?: boolean;
}

/** What an agent is to reach, judged after each of its runs. */
export interface Goal {
  objective: string;
  maxIterations: number;
  /** Of the run that goes on, or went on last; from 1. */
  iteration: number;
  status: "running" | "interrupted" | "complete" | "exhausted" | "failed";
  /** What the last verdict said, or why it failed. */
  detail: string | null;
  /** Id of the message that began the iteration: with it in the log, that was sent. */
  messageId: string;
  /** What it says. */
  message: string;
}

export interface ConversationChange {
  title?: string | null;
  config?: Partial<ConversationConfig>;
}

/** Derived from the log and kept beside it by the log's own transaction, for lists. */
export interface ConversationSummary {
  executionStatus: ExecutionStatus;
  metrics: MetricsSnapshot | null;
  /** What `metrics` adds up, by usage id; null in a row that was last written before this was kept. */
  stats: Stats | null;
}

export interface ConversationFilter {
  userId: string;
  /** SQL LIKE, `%` and `_` act as wildcards. */
  titleContains?: string;
  createdAtGte?: number;
  createdAtLt?: number;
  updatedAtGte?: number;
  updatedAtLt?: number;
  sandboxId?: string;
  status?: ExecutionStatus;
  selectedRepository?: string | undefined;
  trigger?: string | undefined;
  /** False hides conversations that have a parent. */
  includeSubConversations?: boolean;
}

export type ConversationSort = "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC";

/** A conversation before it has a log, and what is stored in the same transaction. */
export type NewConversation = Omit<ConversationRow, "updatedAt" | "summary" | "head"> & {
  /** See `ContextStore`. */
  context?: { document: unknown; activated: readonly string[] };
  /** A message that waits until it is delivered. */
  message?: Pick<PendingMessageRow, "id" | "content">;
};

/** A log that `copyLog` has made, and what goes with it. */
export interface LogCopy {
  /** From `copyLog`. */
  log: string;
  /** Id of the last event where further ones are to name their parents, else null. */
  head: string | null;
  /** Counted as spent already. */
  metrics: MetricsSnapshot | null;
}

export interface ConversationStore {
  /** With the agent that a client gave, and with a log that begins as a copy. Throws PlatformError ConversationExists. */
  create(row: NewConversation, agent?: AgentDocument, copy?: LogCopy): Promise<void>;
  /**
   * Copies listed events of a conversation into a log of which nobody knows until `create` takes it; gives its name. Other writes go on meanwhile. One that
   * is not taken is dropped by `dropLog`, or at the next start. Throws ConversationNotFound, StorageFull.
   */
  copyLog(sourceId: string, spans: readonly Span[]): Promise<string>;
  /** One that was taken is left alone. */
  dropLog(log: string): Promise<void>;
  get(id: string): ConversationRow | undefined;
  /** Newest first, unless another order is asked for. */
  search(filter: ConversationFilter, page: PageRequest & { sort?: ConversationSort }): PageResult<ConversationRow>;
  count(filter: ConversationFilter): number;
  childrenOf(ids: readonly string[]): Map<string, string[]>;
  /** Writes what is given; the fields of `config` one by one, so that changes at the same time do not undo each other. */
  update(id: string, change: ConversationChange): Promise<void>;
  /**
   * Removes the conversation with everything that belongs to it, and ends its start where that goes on, with this sentence. False: it has children, which
   * go first, and nothing was done. Throws ConversationNotFound.
   */
  remove(id: string, endsStart?: string): Promise<boolean>;
  /** Every conversation whose folded status is `running`: those that a restart has to wake. */
  listRunning(): ConversationRow[];
  /** Every conversation whose goal is `running`. */
  listWithGoal(): ConversationRow[];
  bySandbox(sandboxId: string): ConversationRow[];
}

export interface StartTaskRow {
  id: string;
  userId: string;
  status: StartTaskStatus;
  detail: string | null;
  /** Known from the beginning, shown to clients once READY. */
  conversationId: string;
  sandboxId: string | null;
  /** The request as it was accepted, secrets taken out. */
  request: unknown;
  createdAt: number;
  updatedAt: number;
}

export interface StartTaskFilter {
  userId: string;
  conversationId?: string;
  createdAtGte?: number;
}

export interface StartTaskStore {
  create(row: StartTaskRow): Promise<void>;
  /** Changes a task that goes on; gives it as it is then. One that is READY or ERROR stays so. */
  update(id: string, change: Partial<Pick<StartTaskRow, "status" | "detail" | "sandboxId">>): Promise<StartTaskRow>;
  get(id: string): StartTaskRow | undefined;
  search(
    filter: StartTaskFilter,
    page: PageRequest & { sort: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC" },
  ): PageResult<StartTaskRow>;
  count(filter: StartTaskFilter): number;
  /** Tasks that are neither READY nor ERROR. */
  listOpen(): StartTaskRow[];
}

export interface SandboxRow {
  id: string;
  userId: string;
  specId: string;
  /** The state that was last asked for or reached. A hibernated sandbox is PAUSED. */
  status: "STARTING" | "RUNNING" | "PAUSED" | "ERROR";
  /** How a start goes on, why it failed, or, of a PAUSED one, why it was stopped: that one starts again only when a user asks for it. */
  statusDetail: string | null;
  incarnation: string;
  /** Plain here; encrypted on disk by the store. */
  sessionKey: string;
  createdAt: number;
  /** The sandbox's own spec, JSON that its service reads; null in a row of an older schema. */
  spec: unknown;
  /** The root of the spec is ready, and what it decides is filled in. */
  prepared: boolean;
  /** The snapshot with whose files the sandbox begins; null once it has them. */
  snapshotId: string | null;
  /** The last use, as far as it was written: it is written rarely. */
  lastUsedAt: number;
}

export type SandboxChange = Partial<Omit<SandboxRow, "id" | "userId" | "specId" | "sessionKey" | "createdAt">>;

export interface SandboxStore {
  create(row: SandboxRow): Promise<void>;
  /** Throws SandboxNotFound. */
  update(id: string, change: SandboxChange): Promise<void>;
  get(id: string): SandboxRow | undefined;
  bySessionKey(key: string): SandboxRow | undefined;
  search(filter: { userId: string }, page: PageRequest): PageResult<SandboxRow>;
  all(): SandboxRow[];
  remove(id: string): Promise<void>;
}

/** The files of a sandbox as they were once. */
export interface SnapshotRow {
  id: string;
  userId: string;
  /** The sandbox that it was made of, which may be gone. */
  sandboxId: string;
  /** That sandbox's prepared spec. */
  spec: unknown;
  createdAt: number;
}

export interface SnapshotStore {
  create(row: SnapshotRow): Promise<void>;
  get(id: string): SnapshotRow | undefined;
  /** Newest first. */
  search(filter: { userId: string }, page: PageRequest): PageResult<SnapshotRow>;
  ids(): string[];
  remove(id: string): Promise<void>;
}

/** A user's message that waits until its conversation can take it. */
export interface PendingMessageRow {
  id: string;
  userId: string;
  /** The conversation may not exist yet: its start task knows the id. */
  conversationId: string;
  content: Content[];
  createdAt: number;
}

export interface PendingMessageStore {
  create(row: PendingMessageRow): Promise<void>;
  /** In the order in which they came. */
  of(conversationId: string): PendingMessageRow[];
  /** Conversations for which messages wait. */
  conversations(): string[];
  removeOf(conversationId: string): Promise<void>;
}

/** What a conversation knows of its project beside its log; goes when the conversation is removed. */
export interface ContextStore {
  /** `activated`: names of the skills that messages brought along. */
  get(conversationId: string): { document: unknown; activated: string[] } | undefined;
  /** Replaces the document; `activated` stays. */
  put(conversationId: string, document: unknown): Promise<void>;
  activate(conversationId: string, names: readonly string[]): Promise<void>;
}

/** What clients gave with single conversations, encrypted; it goes when the conversation is removed. */
export interface ConversationAgentStore {
  get(conversationId: string): AgentDocument | undefined;
  /** Replaces the whole. Throws ConversationNotFound. */
  put(conversationId: string, document: AgentDocument): Promise<void>;
}

/** A conversation's own agent (agent-server.md section 3.1), secrets included. */
export interface AgentDocument {
  agent?: GivenAgent;
  /** The model to which the conversation was switched. */
  llm?: GivenLlm;
  clientTools?: readonly ClientTool[];
  /** Names of the agent's tools that its `filter_tools_regex` has left, where it has one. */
  keptTools?: readonly string[];
  hookConfig?: Record<string, unknown>;
}

/** One encrypted document per user. */
export interface DocumentStore {
  get(userId: string): Record<string, unknown> | undefined;
  put(userId: string, document: Record<string, unknown>): Promise<void>;
}

/** Secrets of single conversations, encrypted; they go when the conversation is removed. */
export interface ConversationSecretStore {
  /** Replaces those of the same conversation. */
  put(row: ConversationSecretsRow): Promise<void>;
  get(conversationId: string): ConversationSecretsRow | undefined;
  /** Those of the conversations in a sandbox, in the order in which they were made. */
  bySandbox(sandboxId: string): ConversationSecretsRow[];
  /** Removing unknown ones is fine. */
  remove(conversationId: string): Promise<void>;
}

export interface ConversationSecretsRow {
  conversationId: string;
  userId: string;
  sandboxId: string;
  values: Readonly<Record<string, string>>;
}

export interface ApiKeyRow {
  id: string;
  userId: string;
  name: string;
  createdAt: number;
  /** Null: never. */
  expiresAt: number | null;
  /** As far as it was written: it is written rarely. */
  lastUsedAt: number | null;
  readOnly: boolean;
}

export interface ApiKeyStore {
  /**
   * Stores only a hash of the key. A key of the same user and name is replaced, unless `unique` asks for a new name:
   * then throws PlatformError KeyExists.
   */
  create(
    row: Pick<ApiKeyRow, "userId" | "name"> & Partial<Pick<ApiKeyRow, "expiresAt" | "readOnly">>,
    key: string,
    options?: { unique?: boolean },
  ): Promise<ApiKeyRow>;
  find(key: string): ApiKeyRow | undefined;
  /** Oldest first; of all users without `userId`. */
  list(userId?: string): ApiKeyRow[];
  /** Writes the time of the last use. */
  touch(id: string, usedAt: number): Promise<void>;
  /** Ends the key with its logins. */
  remove(id: string): Promise<void>;
}

/** Logins of browsers: each belongs to the key that was exchanged for it, and ends with it. */
export interface LoginStore {
  /** Stores only a hash of the token, and removes what has expired and, of this key, all but the newest `keep`. */
  create(login: { keyId: string; expiresAt: number }, token: string, keep: number): Promise<void>;
  /** The key of a login that has not expired at `now`, and when the login does. */
  find(token: string, now: number): { key: ApiKeyRow; expiresAt: number } | undefined;
  remove(token: string): Promise<void>;
}

/** What users' model calls have cost, by day (UTC). The log adds it up in the transaction of each `stats` record. */
export interface SpendingStore {
  /** USD; `day` is `2026-01-31`. */
  of(userId: string, day: string): number;
}

/** A callback of a conversation; the log is its queue. */
export interface CallbackRow {
  id: string;
  /** Owner of the conversation. */
  userId: string;
  /** May not exist yet. */
  conversationId: string;
  processor: StoredProcessor;
  /** Plain here; encrypted on disk by the store. */
  secret: string | null;
  status: "ACTIVE" | "FAILED";
  /** Why the last attempt failed. */
  detail: string | null;
  /** Sequence number of the first record that is not delivered yet. */
  nextSeq: number;
  /** Failed attempts since the last success. */
  attempts: number;
  /** When the first of them was. */
  failingSince: number | null;
  nextAttemptAt: number | null;
  createdAt: number;
}

/** `ServerWebhook` is the operator's own: its address and secret are in the configuration. */
export type StoredProcessor =
  | { kind: "ServerWebhook" }
  | { kind: "LoggingCallbackProcessor" }
  | { kind: "WebhookCallbackProcessor"; url: string; kinds: string[] | null };

export type CallbackChange = Partial<
  Pick<CallbackRow, "status" | "detail" | "nextSeq" | "attempts" | "failingSince" | "nextAttemptAt">
>;

export interface CallbackStore {
  /** All or none. */
  create(rows: readonly CallbackRow[]): Promise<void>;
  get(id: string): CallbackRow | undefined;
  /** Oldest first. */
  ofConversation(conversationId: string): CallbackRow[];
  /** Those of a conversation that are to be delivered to: id and cursor. */
  activeOf(conversationId: string): { id: string; nextSeq: number }[];
  /** Every active one whose conversation has records that it was not told of. */
  behind(): { id: string; conversationId: string }[];
  /** Changes a callback that is there still. */
  update(id: string, change: CallbackChange): Promise<void>;
  /** False where there is none. */
  remove(id: string): Promise<boolean>;
  removeOf(conversationId: string): Promise<void>;
  /** Gives every conversation without one a ServerWebhook from its next record on, and makes those that were given up active again. */
  coverConversations(): Promise<void>;
  /** Removes every ServerWebhook. */
  uncoverConversations(): Promise<void>;
}
