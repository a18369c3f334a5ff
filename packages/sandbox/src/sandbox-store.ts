import type { PageRequest, PageResult } from "@sandpiper/core/paging";

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

export type SandboxChange = Partial<
  Omit<SandboxRow, "id" | "userId" | "specId" | "sessionKey" | "createdAt">
>;

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
