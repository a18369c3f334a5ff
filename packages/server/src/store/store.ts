import type { ExecutionStatus, MetricsSnapshot, StartTaskStatus } from "@sandpiper/wire";
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
  readonly settings: SettingsStore;
  readonly apiKeys: ApiKeyStore;
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
}

export interface ConversationConfig {
  llmModel: string | null;
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
}

/** Derived from the log and kept beside it by the log's own transaction, for lists. */
export interface ConversationSummary {
  executionStatus: ExecutionStatus;
  metrics: MetricsSnapshot | null;
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
  /** False hides conversations that have a parent. */
  includeSubConversations?: boolean;
}

export interface ConversationStore {
  /** Throws PlatformError ConversationExists. */
  create(row: Omit<ConversationRow, "updatedAt" | "summary">): Promise<void>;
  get(id: string): ConversationRow | undefined;
  /** Newest first. */
  search(filter: ConversationFilter, page: PageRequest): PageResult<ConversationRow>;
  count(filter: ConversationFilter): number;
  childrenOf(ids: readonly string[]): Map<string, string[]>;
  update(id: string, change: { title?: string | null; config?: ConversationConfig }): Promise<void>;
  /** Removes the conversation with its events. */
  remove(id: string): Promise<void>;
  /** Every conversation whose folded status is `running`: those that a restart has to wake. */
  listRunning(): ConversationRow[];
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

/** One encrypted document per user. */
export interface SettingsStore {
  get(userId: string): Record<string, unknown> | undefined;
  put(userId: string, document: Record<string, unknown>): Promise<void>;
}

export interface ApiKeyRow {
  id: string;
  userId: string;
  name: string;
  createdAt: number;
}

export interface ApiKeyStore {
  /** Stores only a hash of the key. A key of the same name is replaced. */
  create(userId: string, name: string, key: string): Promise<ApiKeyRow>;
  find(key: string): ApiKeyRow | undefined;
  list(): ApiKeyRow[];
  remove(id: string): Promise<void>;
}
