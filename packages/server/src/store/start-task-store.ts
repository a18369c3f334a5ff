import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { StartTaskStatus } from "@sandpiper/wire";
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

export interface StartTaskFilter {
  userId: string;
  conversationId?: string;
  createdAtGte?: number;
}

export interface StartTaskStore {
  /**
   * Creates a task. `owner` is the incarnation of its node, where there are several nodes. Throws
   * TooManyRequests when too many tasks of the user are not over.
   */
  create(row: StartTaskRow, owner?: string): Promise<void>;
  /**
   * Makes a node the owner of open tasks that have no sandbox yet and whose owner has ended.
   * Returns all open tasks without a sandbox that the node owns. A store of one process returns
   * none.
   */
  claim(owner: string): Promise<StartTaskRow[]>;
  /**
   * Whether a node owns a task. Callers ask until the task has a sandbox, because a sandbox has an
   * owner itself.
   */
  isOwner(id: string, owner: string): Promise<boolean>;
  /** Updates a task unless it is READY or ERROR; returns the task. */
  update(
    id: string,
    change: Partial<Pick<StartTaskRow, "status" | "detail" | "sandboxId">>,
  ): Promise<StartTaskRow>;
  get(id: string): Promise<StartTaskRow | undefined>;
  search(
    filter: StartTaskFilter,
    page: PageRequest & { sort: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC" },
  ): Promise<PageResult<StartTaskRow>>;
  count(filter: StartTaskFilter): Promise<number>;
  /** Lists the tasks that are neither READY nor ERROR, by default those of all sandboxes. */
  listOpen(scope?: SandboxScope): Promise<StartTaskRow[]>;
}
