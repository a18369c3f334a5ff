import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type {
  ConfirmationPolicy,
  ExecutionStatus,
  MetricsSnapshot,
  SecurityAnalyzer,
  Stats,
} from "@sandpiper/wire";
import type { Span } from "./branch.ts";
import type { CallbackRow } from "./callback-store.ts";
import type { AgentDocument, ConversationSecretsRow, PendingMessageRow } from "./conversation-parts.ts";
import type { SandboxScope } from "./sandbox-scope.ts";

export interface ConversationRow {
  id: string;
  userId: string;
  sandboxId: string;
  /** Configuration without secrets: model name, repository, tags … */
  config: ConversationConfig;
  title: string | null;
  parentId: string | null;
  createdAt: number;
  updatedAt: number;
  summary: ConversationSummary;
  /** Parent of the next event after a navigation; empty: no parent. Null: the newest event. */
  head: string | null;
}

/** A copy of an agent profile; what is undefined comes from the settings. */
export interface LaunchedProfile {
  id: string;
  revision: number;
  /** Names of the user's secrets that apply in the sandbox; null: all. */
  secretRefs?: readonly string[] | null | undefined;
  /** Names of MCP servers of the settings; null: all. */
  mcpServerRefs?: readonly string[] | null | undefined;
  /** Names of tools; null: the defaults. */
  tools?: readonly { name: string }[] | null | undefined;
  enableSubAgents?: boolean | undefined;
  enableSwitchLlmTool?: boolean | undefined;
  toolConcurrencyLimit?: number | undefined;
}

export interface ConversationConfig {
  llmModel: string | null;
  /** LLM profile that the conversation was switched to; it overrides `llmModel`. */
  llmProfile?: string | null;
  selectedRepository: string | null;
  selectedBranch: string | null;
  gitProvider: string | null;
  trigger: string | null;
  prNumber: number[];
  public: boolean | null;
  tags: Record<string, string>;
  agentType: "default" | "plan";
  /** The default tools include the browser, because the sandbox started with one. */
  browser?: boolean;
  systemMessageSuffix: string | null;
  workingDir: string;
  maxIterations: number;
  /** The conversation's own budget, USD; a lower one of the user's settings wins. */
  maxBudget?: number | null;
  /** Agent profile at the start; `disabledSkills` are those of the profile. */
  launchedProfile?: LaunchedProfile | undefined;
  disabledSkills?: readonly string[] | undefined;
  /** Names of the only skills of a sub-agent; undefined: all. */
  onlySkills?: readonly string[] | undefined;
  /** A client defined the agent: `Store.agents` has it, and `llmModel` is its model's name. */
  ownAgent?: boolean;
  /** Incremented by each switch to another model. */
  llmRevision?: number;
  /** These override the user's settings; `securityAnalyzer` null means none. */
  confirmationPolicy?: ConfirmationPolicy;
  securityAnalyzer?: SecurityAnalyzer | null;
  stuckDetection?: boolean;
  titleLlmProfile?: string | null;
  /** False: no title is generated from the first message. */
  autotitle?: boolean;
  goal?: Goal;
  /** The conversation that was copied, up to and including the event. */
  forkedFrom?: { conversationId: string; eventId: string | null };
  /** Set when a sub-agent works here for a tool call of the parent. */
  task?: SubAgentTask;
  /** An agent server in the sandbox runs and reports the conversation (app-server.md section 8). */
  external?: boolean;
  /** Git worktree of the conversation, removed with it; forks may share it. */
  worktree?: Worktree | undefined;
  /** Goes along with requests to models, to MCP servers of the user and to callbacks. */
  trace?: TraceContext | undefined;
}

/** Links a sub-agent's conversation to the tool call of its parent. */
export interface SubAgentTask {
  /** The agent's name of the task: `task_00000001`. */
  id: string;
  /** Type of the sub-agent. */
  subagent: string;
}

/** A git worktree in a sandbox with its own branch; paths are absolute. */
export interface Worktree {
  repository: string;
  folder: string;
  branch: string;
}

/** An objective that is judged after each run. */
export interface Goal {
  objective: string;
  maxIterations: number;
  /** Number of the current or last run, from 1. */
  iteration: number;
  status: "running" | "interrupted" | "complete" | "exhausted" | "failed";
  /** The last verdict, or the reason of the failure. */
  detail: string | null;
  /** How much of the goal the last verdict sees reached, 0 to 1; undefined before the first one. */
  score?: number;
  /** Id of the message of this iteration; it was sent if the log has it. */
  messageId: string;
  /** Text of that message. */
  message: string;
}

export interface ConversationChange {
  title?: string | null;
  config?: Partial<ConversationConfig>;
}

/** Derived from the log in the transaction of each append, for lists. */
export interface ConversationSummary {
  executionStatus: ExecutionStatus;
  metrics: MetricsSnapshot | null;
  /** Metrics by usage id, whose total is `metrics`; null in rows of older versions. */
  stats: Stats | null;
}

export interface ConversationFilter {
  userId: string;
  /** SQL LIKE with the wildcards `%` and `_`. */
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
  /** Start of the page instead of an offset: stable when earlier rows are deleted. */
  from?: ListPosition | undefined;
}

/**
 * A position in a list: at or after the conversation with this time and id, which may be deleted.
 */
export interface ListPosition {
  /** Value of the sort column, ms since the epoch. */
  time: number;
  id: string;
  isFirst: boolean;
}

/** A new conversation with related rows that are stored in the same transaction. */
export type NewConversation = Omit<ConversationRow, "updatedAt" | "summary" | "head"> & {
  /** See `ContextStore`. */
  context?: { document: unknown; activated: readonly string[] };
  /** The secrets and the callbacks of the conversation. */
  secrets?: ConversationSecretsRow | undefined;
  callbacks?: readonly CallbackRow[];
  /** A pending message. */
  message?: Pick<PendingMessageRow, "id" | "content">;
  /** Conversations that the sandbox may have with this one. */
  limit?: { maxInSandbox: number };
};

/** How a copied log continues. */
export interface CopiedLog {
  /** Id of the last event if further events name their parents, else null. */
  head: string | null;
  /** Costs that are already counted as spent. */
  metrics: MetricsSnapshot | null;
}

/** A start that failed, whose conversation is removed. */
export interface FailedStart {
  taskId: string;
  /** The node that must own the task; undefined in a server that is alone. */
  owner: string | undefined;
  /** Detail of the task. */
  reason: string;
}

export interface ConversationStore {
  /**
   * Creates a conversation with its related rows in one transaction, with a client-defined agent
   * and the log of `copyLog` if given. Throws ConversationExists, and ConversationExternal when the
   * limit is reached.
   */
  create(row: NewConversation, agent?: AgentDocument, log?: string): Promise<void>;
  /**
   * Copies listed events into a hidden log for `create` and returns its name, by which records can
   * be appended to it. `dropLog` or the next start removes it if it is unused. Throws
   * ConversationNotFound, StorageFull.
   */
  copyLog(sourceId: string, spans: readonly Span[], copied?: CopiedLog): Promise<string>;
  /** Removes an unused copy. */
  dropLog(log: string): Promise<void>;
  get(id: string): Promise<ConversationRow | undefined>;
  /** Newest first by default. */
  search(filter: ConversationFilter, page: ConversationPage): Promise<PageResult<ConversationRow>>;
  count(filter: ConversationFilter): Promise<number>;
  /** Ordered ids of the children of each; `subAgents: false` leaves out sub-agents. */
  listChildren(ids: readonly string[], which?: { subAgents: boolean }): Promise<Map<string, string[]>>;
  /**
   * Updates the given fields; those of `config` one by one, so concurrent changes do not collide.
   */
  update(id: string, change: ConversationChange): Promise<void>;
  /**
   * Replaces a title, unless it is no longer `from`: a user may have changed it meanwhile. Returns
   * whether it did.
   */
  replaceTitle(id: string, from: string | null, to: string): Promise<boolean>;
  /**
   * Removes a conversation with its related rows, and ends its unfinished start with ERROR; all of
   * it and the record of the sandbox `sandboxId` in one transaction. A conversation in another
   * sandbox than `sandboxId` stays. Returns false when it has children, and then removes only the
   * record of the sandbox. Throws ConversationNotFound, unless a sandbox is given, and
   * OwnershipLost when another node owns the start that failed.
   */
  remove(
    id: string,
    options?: { failedStart?: FailedStart | undefined; sandboxId?: string | undefined },
  ): Promise<boolean>;
  /**
   * Lists conversations with the status `running`, which a restart resumes; by default those of all
   * sandboxes.
   */
  listRunning(scope?: SandboxScope): Promise<ConversationRow[]>;
  /**
   * Counts an unclean end for each running conversation, when a server that is alone begins. For
   * several nodes, a claim counts (`NodeStore.claim`).
   */
  countUncleanEnds(): Promise<void>;
  /** Takes back, at a clean end, the unclean end that the next server counts. */
  markCleanEnd(): Promise<void>;
  /**
   * Returns how many unclean ends in a row conversations have seen, by id. A user message or
   * another status resets the count.
   */
  listUncleanEnds(ids: readonly string[]): Promise<Map<string, number>>;
  /** Lists conversations whose goal is `running`, by default those of all sandboxes. */
  listWithGoal(scope?: SandboxScope): Promise<ConversationRow[]>;
  listBySandbox(sandboxId: string): Promise<ConversationRow[]>;
}
