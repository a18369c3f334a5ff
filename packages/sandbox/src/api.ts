import type { Duplex } from "node:stream";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { NetworkPolicy, SandboxSpec } from "./driver.ts";
import type { Sandbox } from "./sandbox.ts";
import type { SandboxRow, SnapshotRow } from "./sandbox-store.ts";
import type { OpenedSnapshot } from "./service/opened-snapshot.ts";
import type { Lease } from "./service/runtime-state.ts";

/** Lifecycle and ownership of sandboxes, over one driver. */
export interface Sandboxes {
  /** Opens the driver and brings records and engine into line: finds running ones again, removes half-made ones and orphans. */
  open(): Promise<void>;
  /** The specs, the default first. */
  specs(): SandboxSpec[];
  /** The spec that a new sandbox of the user gets. Throws SandboxSpecNotFound. */
  resolveSpec(userId: string, specId?: string): SandboxSpec;
  /** The spec of a sandbox that there is. Throws SandboxSpecNotFound for one of an older version whose spec is not configured any more. */
  getSpec(row: SandboxRow): SandboxSpec;
  /**
   * Stores a STARTING record, and prepares and starts in the background. While the root is prepared, `statusDetail` tells how it goes on.
   * Throws SandboxSpecNotFound, SnapshotNotFound.
   */
  create(userId: string, specId?: string, options?: CreateOptions): Promise<SandboxRow>;
  /** Undefined for an unknown id and for another user's. */
  get(userId: string, id: string): SandboxRow | undefined;
  search(userId: string, page: PageRequest): PageResult<SandboxRow>;
  bySessionKey(key: string): SandboxRow | undefined;
  /**
   * Waits until the sandbox runs: a STARTING one is awaited, a PAUSED one resumed, one whose processes are gone is started again on its files.
   * Counts as use. `beforeWake` is awaited before a PAUSED one is resumed, now and whenever a command through the handle finds it so: for work that its
   * user has stopped with the sandbox. Throws SandboxNotFound, or SandboxFailed with the reason in one sentence and what to do, and what `beforeWake` throws.
   */
  running(id: string, beforeWake?: () => Promise<void>): Promise<Sandbox>;
  /** Throws SandboxNotFound, SandboxFailed. Operations on one sandbox wait for each other; each is idempotent. */
  pause(userId: string, id: string): Promise<void>;
  /** Also starts one that was stopped for its size, for a minute, so that files can be deleted in it. */
  resume(userId: string, id: string): Promise<void>;
  /** Breaks off a start that is under way. Snapshots stay. A write that `beside` begins at once is one transaction with the removal of the record. */
  remove(userId: string, id: string, beside?: () => Promise<unknown>): Promise<void>;
  /**
   * Connects to a TCP port on the loopback address inside, waking the sandbox. Counts as use whenever bytes pass. The connection is cut when the
   * sandbox is paused. Throws what `running` throws, and PortUnreachable.
   */
  connect(id: string, port: number): Promise<Duplex>;
  /**
   * Says that a sandbox has got secrets. One that runs without the way for them, as the first ones come, ends its processes (open shells keep their
   * directory and environment) and starts anew with its next use; while somebody works in it, it gets the way with a later start. Does not wait for a start.
   */
  refreshSecretAccess(id: string): void;
  /** Tells who works in a sandbox, until the returned function is called. An unknown sandbox is fine. */
  acquire(id: string, occupant: Lease): () => void;
  readonly snapshots: Snapshots;
  /** Calls back after every change of a record. */
  onChange(listener: (row: SandboxRow | { id: string; removed: true }) => void): () => void;
  close(): Promise<void>;
}

export interface CreateOptions {
  /** From `newSandboxId`, for a caller that has to know it before; default: a new one. */
  id?: string;
  /** Something that goes before the start; it must end, and not reject. */
  after?: Promise<void>;
  /** In the place of the spec's own; its credentials stay those of the spec. */
  network?: Partial<Pick<NetworkPolicy, "mode" | "allow">>;
  /** The sandbox begins with the files of this snapshot, and has its spec unless `specId` names one. */
  snapshotId?: string;
}

/** Files of sandboxes as they were once. They outlive their sandbox. */
export interface Snapshots {
  /**
   * Keeps the files of a sandbox in a time that does not depend on their size. Where the engine has to stop a running one for that, it is started
   * again, and open shells keep their directory and environment. Throws SandboxNotFound, SandboxFailed.
   */
  create(userId: string, sandboxId: string): Promise<SnapshotRow>;
  /** Undefined for an unknown id and for another user's. */
  get(userId: string, id: string): SnapshotRow | undefined;
  search(userId: string, page: PageRequest): PageResult<SnapshotRow>;
  /** Opens the files of a snapshot for reading; whoever does that closes it. Throws SnapshotNotFound, SandboxFailed. */
  open(userId: string, id: string): Promise<OpenedSnapshot>;
  /** Sandboxes that were started from it keep their files. Throws SnapshotNotFound. */
  remove(userId: string, id: string): Promise<void>;
}
