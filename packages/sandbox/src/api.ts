import type { Duplex } from "node:stream";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { NetworkPolicy, SandboxSpec } from "./driver.ts";
import type { Sandbox } from "./sandbox.ts";
import type { SandboxRow, SnapshotRow } from "./sandbox-store.ts";
import type { OpenedSnapshot } from "./service/opened-snapshot.ts";
import type { Lease } from "./service/runtime-state.ts";

/** Lifecycle and ownership of sandboxes, over one driver. */
export interface Sandboxes {
  /**
   * Opens the driver. Adopts all sandboxes and removes orphans, unless other servers have sandboxes
   * in the same store.
   */
  open(): Promise<void>;
  /**
   * Continues sandboxes that this server begins to own: their starts, processes and network.
   * Ignores sandboxes that this server owns already.
   */
  adopt(ids: readonly string[]): Promise<void>;
  /**
   * Ends what this server does with sandboxes. The processes of the sandboxes go on. With `lost`
   * another server may own the sandboxes, so this server stores nothing. Never rejects.
   */
  release(ids: readonly string[], how: { lost: boolean }): Promise<void>;
  /** The specs, the default first. */
  specs(): SandboxSpec[];
  /** The spec of a new sandbox of the user. Throws SandboxSpecNotFound. */
  resolveSpec(userId: string, specId?: string): Promise<SandboxSpec>;
  /** Throws SandboxSpecNotFound for a row of an older schema with an unknown spec. */
  getSpec(row: SandboxRow): SandboxSpec;
  /**
   * Stores a STARTING record, and prepares and starts in the background; `statusDetail` shows the
   * progress. Throws SandboxSpecNotFound, SnapshotNotFound, TooManySandboxes.
   */
  create(userId: string, specId?: string, options?: CreateOptions): Promise<SandboxRow>;
  /** Undefined for an unknown id and for another user's. */
  get(userId: string, id: string): Promise<SandboxRow | undefined>;
  search(userId: string, page: PageRequest): Promise<PageResult<SandboxRow>>;
  /**
   * Waits until the sandbox runs: awaits a start, resumes a PAUSED sandbox, and restarts ended
   * processes on the sandbox's files. Counts as use. `beforeWake` is awaited before each resume,
   * also one by a later command of the handle. Throws SandboxNotFound, SandboxFailed with the
   * reason and what to do, and what `beforeWake` throws.
   */
  running(id: string, beforeWake?: () => Promise<void>): Promise<Sandbox>;
  /**
   * Idempotent; operations are serialised. Throws SandboxNotFound, SandboxFailed, and
   * SandboxNotRunning for a new sandbox that waits until its user may run another one.
   */
  pause(userId: string, id: string): Promise<void>;
  /**
   * A sandbox that was stopped for its size runs for a minute, so that files can be deleted in it.
   * Throws as `pause`.
   */
  resume(userId: string, id: string): Promise<void>;
  /**
   * Cancels a start in progress. Snapshots stay. `removeRecord` removes the record, and other rows
   * of the caller in the same transaction.
   */
  remove(userId: string, id: string, removeRecord?: () => Promise<unknown>): Promise<void>;
  /**
   * Connects to a TCP port on the loopback address inside, waking the sandbox. Traffic counts as
   * use; a pause cuts the connection. Throws what `running` throws, and PortUnreachable.
   */
  connect(id: string, port: number): Promise<Duplex>;
  /** Registers an owner that works in a sandbox, until the returned function is called. */
  acquire(id: string, lease: Lease): () => void;
  readonly snapshots: Snapshots;
  /** Calls back after every change of a record, and when a sandbox is released. */
  onChange(listener: (notice: SandboxNotice) => void): () => void;
  close(): Promise<void>;
}

/** `released`: this server no longer handles the sandbox. */
export type SandboxNotice = SandboxRow | { id: string; removed: true } | { id: string; released: true };

export interface CreateOptions {
  /** From `newSandboxId`; default: a new one. */
  id?: string;
  /** A result of `resolveSpec`. It replaces `specId`, so that nothing is read before the write. */
  spec?: SandboxSpec;
  /** Awaited before the start; must not reject. */
  after?: Promise<void>;
  /** Replaces the network of the spec; the spec's credentials stay. */
  network?: Partial<Pick<NetworkPolicy, "mode" | "allow">>;
  /** Rules besides those of the network; a network of mode `none` becomes an allowlist. */
  allow?: NetworkPolicy["allow"];
  /** Variables besides those of the spec. */
  env?: Record<string, string>;
  /** Replaces the working folder of the spec; an absolute path outside of system folders. */
  workingDir?: string;
  /**
   * The sandbox begins with the files of this snapshot, and has its spec unless `specId` names one.
   */
  snapshotId?: string;
}

/** Copies of sandboxes' files at one moment. They outlive their sandbox. */
export interface Snapshots {
  /**
   * Takes constant time. Where the engine must stop a running sandbox for it, the sandbox is
   * started again, and open shells keep their directory and environment. Throws as `pause`, and
   * TooManySnapshots and SnapshotFailed.
   */
  create(userId: string, sandboxId: string): Promise<SnapshotRow>;
  /** Undefined for an unknown id and for another user's. */
  get(userId: string, id: string): Promise<SnapshotRow | undefined>;
  search(userId: string, page: PageRequest): Promise<PageResult<SnapshotRow>>;
  /** Opens the files for reading; the caller closes. Throws SnapshotNotFound, SandboxFailed. */
  open(userId: string, id: string): Promise<OpenedSnapshot>;
  /** Sandboxes that were started from it keep their files. Throws SnapshotNotFound. */
  remove(userId: string, id: string): Promise<void>;
}
