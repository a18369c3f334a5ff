import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type {
  ConfirmationPolicy,
  ExecutionStatus,
  MetricsSnapshot,
  SecurityAnalyzer,
  Stats,
} from "@sandpiper/wire";
import type { Span } from "./branch.ts";
import type { AgentDocument, PendingMessageRow } from "./conversation-parts.ts";

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
  /** The usual tools include the browser: the sandbox began with one. */
  browser?: boolean;
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
  /** A sub-agent works here, for a call of the parent's agent. */
  task?: SubAgentTask;
  /** An agent server inside the sandbox runs the conversation and reports it here (app-server.md section 8). */
  external?: boolean;
  /** The conversation works in a worktree of its own, which goes with it; a fork that works there too has it as well. */
  worktree?: Worktree | undefined;
}

/** What a sub-agent's conversation is to its parent. */
export interface SubAgentTask {
  /** As the agent knows it: `task_00000001`. */
  id: string;
  /** Kind of the sub-agent. */
  subagent: string;
}

/** A git worktree in a sandbox, on a branch of its own; the paths are absolute. */
export interface Worktree {
  repository: string;
  folder: string;
  branch: string;
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

export interface ConversationPage extends PageRequest {
  sort?: ConversationSort;
  /** Where the page begins instead of at an offset: what is deleted before it moves nothing. */
  from?: ListPosition | undefined;
}

/** A place in a list of conversations: at, or after, the one with this time and id, which may be gone. */
export interface ListPosition {
  /** Of the conversation, of the kind that the list is sorted by; ms since the epoch. */
  time: number;
  id: string;
  isFirst: boolean;
}

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
  search(filter: ConversationFilter, page: ConversationPage): PageResult<ConversationRow>;
  count(filter: ConversationFilter): number;
  /** Ids of the conversations begun from each, in order; `subAgents: false` leaves out those in which sub-agents work. */
  listChildren(ids: readonly string[], which?: { subAgents: boolean }): Map<string, string[]>;
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
  listBySandbox(sandboxId: string): ConversationRow[];
}
