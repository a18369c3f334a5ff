import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { StartTaskStatus } from "@sandpiper/wire";
import type { CallbackRow } from "./callback-store.ts";
import type { ConversationSecretsRow } from "./conversation-parts.ts";
import type { SandboxScope } from "./sandbox-scope.ts";

export interface StartTaskRow {
  id: string;
  userId: string;
  status: StartTaskStatus;
  detail: string | null;
  /** Assigned at the beginning, shown to clients once READY. */
  conversationId: string;
  sandboxId: string | null;
  /** The accepted request without secrets. */
  request: unknown;
  createdAt: number;
  updatedAt: number;
}

/**
 * A start was not stored: the user has a newer start than its caller knows. It changes nothing that
 * a client sees, because the caller tries again.
 */
export class NewerStart extends Error {}

/** The starts of a user that are not over. */
export interface OpenStarts {
  /** Ids of the sandboxes of these starts. A sandbox may not exist yet. */
  sandboxIds: string[];
  /** Number of the user's newest start, whether it is over or not; 0: there is none. */
  newest: number;
}

/** What a start stores with its task. */
export interface StartParts {
  /** From `findOpen`: the start is stored only while the user has no newer one. */
  newest?: number | undefined;
  /** Incarnation of the task's node, where there are several nodes. */
  owner?: string | undefined;
  secrets?: ConversationSecretsRow | undefined;
  callbacks?: readonly CallbackRow[] | undefined;
}

export interface StartTaskFilter {
  userId: string;
  conversationId?: string;
  createdAtGte?: number;
}

export interface StartTaskStore {
  /**
   * Creates a task with what the start stores before its conversation, in one transaction. Throws
   * ConversationExists when the conversation exists or another open task has its id,
   * TooManyRequests when too many tasks of the user are not over, StorageQuotaReached, and
   * NewerStart.
   */
  create(row: StartTaskRow, parts?: StartParts): Promise<void>;
  /**
   * Makes a node the owner of open tasks whose sandbox it owns, and of those that have no sandbox
   * yet and whose owner has ended. Returns all such tasks of the node. A store of one process
   * returns none.
   */
  claim(owner: string): Promise<StartTaskRow[]>;
  /**
   * Whether a node owns a task and its lease is valid. A task that has a sandbox belongs to the
   * owner of the sandbox.
   */
  isOwner(id: string, owner: string): Promise<boolean>;
  /**
   * Updates a task unless it is READY or ERROR; returns the task. Throws OwnershipLost, and changes
   * nothing, when another node than `owner` owns the task.
   */
  update(
    id: string,
    change: Partial<Pick<StartTaskRow, "status" | "detail" | "sandboxId">>,
    owner?: string,
  ): Promise<StartTaskRow>;
  /**
   * Ends a task with ERROR unless it is over, or another node than `owner` owns it; returns the
   * task. Removes what the start has stored for its conversation, if there is no conversation.
   */
  fail(id: string, detail: string, owner?: string): Promise<StartTaskRow>;
  get(id: string): Promise<StartTaskRow | undefined>;
  search(
    filter: StartTaskFilter,
    page: PageRequest & { sort: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC" },
  ): Promise<PageResult<StartTaskRow>>;
  count(filter: StartTaskFilter): Promise<number>;
  /** Reads the starts of a user that are not over. */
  findOpen(userId: string): Promise<OpenStarts>;
  /** Lists the tasks that are neither READY nor ERROR, by default those of all sandboxes. */
  listOpen(scope?: SandboxScope): Promise<StartTaskRow[]>;
}
