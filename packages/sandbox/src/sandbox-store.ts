import type { PageRequest, PageResult } from "@sandpiper/core/paging";

export interface SandboxRow {
  id: string;
  userId: string;
  specId: string;
  /** The last requested or reached state. A hibernated sandbox is PAUSED. */
  status: "STARTING" | "RUNNING" | "PAUSED" | "ERROR";
  /** Progress or failure of a start; on PAUSED, why only its user resumes the sandbox. */
  statusDetail: string | null;
  incarnation: string;
  /** Plain here; encrypted on disk by the store. */
  sessionKey: string;
  createdAt: number;
  /** The sandbox's own spec as JSON; null in a row of an older schema. */
  spec: unknown;
  /** `spec` is a prepared spec. */
  prepared: boolean;
  /** The snapshot that the first start copies; null afterwards. */
  snapshotId: string | null;
  /** The last stored use; stored rarely. */
  lastUsedAt: number;
}

export type SandboxChange = Partial<
  Omit<SandboxRow, "id" | "userId" | "specId" | "sessionKey" | "createdAt">
>;

export interface SandboxStore {
  /**
   * Stores a new sandbox. In a store of several servers, this server becomes its owner. Throws
   * TooManySandboxes when the user has `max` sandboxes, whichever server created them; 0: no limit.
   */
  create(row: SandboxRow, max?: number): Promise<void>;
  /** Throws SandboxNotFound, and OwnershipLost when another server owns the sandbox. */
  update(id: string, change: SandboxChange): Promise<void>;
  get(id: string): Promise<SandboxRow | undefined>;
  search(filter: { userId: string }, page: PageRequest): Promise<PageResult<SandboxRow>>;
  all(): Promise<SandboxRow[]>;
  /** Returns all sandboxes of a user. */
  listByUser(userId: string): Promise<SandboxRow[]>;
  /** Returns the sandboxes of these ids, without those that do not exist. */
  listByIds(ids: readonly string[]): Promise<SandboxRow[]>;
  /** Returns the ids of all sandboxes, each with the snapshot with which the sandbox begins. */
  listIds(): Promise<{ id: string; snapshotId: string | null }[]>;
  /** Removes a sandbox. Throws OwnershipLost when another server owns the sandbox. */
  remove(id: string): Promise<void>;
}

/** A copy of a sandbox's files at one moment. */
export interface SnapshotRow {
  id: string;
  userId: string;
  /** The source, which may be deleted. */
  sandboxId: string;
  /** That sandbox's prepared spec. */
  spec: unknown;
  createdAt: number;
}

export interface SnapshotStore {
  /**
   * Stores a new snapshot. Throws TooManySnapshots when the user has `max` snapshots, whichever
   * server created them; 0: no limit.
   */
  create(row: SnapshotRow, max?: number): Promise<void>;
  get(id: string): Promise<SnapshotRow | undefined>;
  /** Newest first. */
  search(filter: { userId: string }, page: PageRequest): Promise<PageResult<SnapshotRow>>;
  count(filter: { userId: string }): Promise<number>;
  ids(): Promise<string[]>;
  /** Every snapshot with its user. */
  owners(): Promise<{ id: string; userId: string }[]>;
  remove(id: string): Promise<void>;
}
