import type { PageRequest, PageResult, SandboxRow } from "../store/store.ts";
import type { SandboxSpec } from "./driver.ts";
import type { Sandbox } from "./sandbox.ts";

/** Lifecycle and ownership of sandboxes, over one driver. */
export interface Sandboxes {
  /** Opens the driver and brings records and engine into line: finds running ones again, removes half-made ones and orphans. */
  open(): Promise<void>;
  /** The specs, the default first. */
  specs(): SandboxSpec[];
  /**
   * Stores a STARTING record and starts in the background, `after` something that goes first (it must end, and not reject).
   * Throws SandboxSpecNotFound.
   */
  create(userId: string, specId?: string, options?: { after?: Promise<void> }): Promise<SandboxRow>;
  /** Undefined for an unknown id and for another user's. */
  get(userId: string, id: string): SandboxRow | undefined;
  search(userId: string, page: PageRequest): PageResult<SandboxRow>;
  bySessionKey(key: string): SandboxRow | undefined;
  /**
   * Waits until the sandbox runs: a STARTING one is awaited, a PAUSED one resumed, one whose processes are gone is started again on its files.
   * Throws SandboxNotFound, or SandboxFailed with the reason in one sentence and what to do.
   */
  running(id: string): Promise<Sandbox>;
  /** Throws SandboxNotFound, SandboxFailed. Operations on one sandbox wait for each other; each is idempotent. */
  pause(userId: string, id: string): Promise<void>;
  resume(userId: string, id: string): Promise<void>;
  remove(userId: string, id: string): Promise<void>;
  /** Calls back after every change of a record. */
  onChange(listener: (row: SandboxRow | { id: string; removed: true }) => void): () => void;
  close(): Promise<void>;
}
