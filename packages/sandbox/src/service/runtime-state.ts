import type { Duplex } from "node:stream";
import type { SandboxRow } from "../sandbox-store.ts";

/**
 * Held by an owner that works in a sandbox over many calls, such as a conversation with its shell.
 */
export interface Lease {
  /** True while the owner has work for which the sandbox must run. */
  busy(): boolean;
  /**
   * Saves what must outlive the processes in the sandbox's files. Callers wait at most a second.
   */
  beforeStop(): Promise<void>;
}

/** The in-memory state of a sandbox, in addition to its record. */
export interface SandboxRuntimeState {
  readonly id: string;
  readonly userId: string;
  /** As recorded. */
  status: SandboxRow["status"];
  /** Incarnation of the known processes. */
  incarnation: string | undefined;
  /** The processes were ended on purpose, so the engine need not be asked for them. */
  stopped: boolean;
  /** Limit of the sandbox's files, bytes; undefined before its first start. */
  diskLimit: number | undefined;
  lastUsedAt: number;
  /** The last use that is stored. */
  storedUseAt: number;
  pausedAt: number;
  /** Grows when a pause begins and when it ends. */
  pauseSteps: number;
  /** Counts towards the limit of running sandboxes of its user (see `suspender.ts`). */
  hasSlot: boolean;
  /** Commands without a terminal. */
  runningCommands: number;
  readonly leases: Set<Lease>;
  /** Connections into the sandbox, with the bytes that had passed at the last check. */
  readonly connections: Map<Duplex, number>;
  /** Aborted by the deletion of the sandbox. */
  removal: AbortController;
}

export function newRuntimeState(row: SandboxRow, now: number): SandboxRuntimeState {
  return {
    id: row.id,
    userId: row.userId,
    status: row.status,
    incarnation: undefined,
    stopped: false,
    diskLimit: undefined,
    lastUsedAt: row.lastUsedAt,
    storedUseAt: row.lastUsedAt,
    pausedAt: now,
    pauseSteps: 0,
    hasSlot: false,
    runningCommands: 0,
    leases: new Set(),
    connections: new Map(),
    removal: new AbortController(),
  };
}

/** True while there is work for which the sandbox must run. */
export function isBusy({ runningCommands, leases }: SandboxRuntimeState): boolean {
  return runningCommands > 0 || [...leases].some((lease) => lease.busy());
}

/** True when bytes have passed through a connection into the sandbox since the last call. */
export function hasTraffic({ connections }: SandboxRuntimeState): boolean {
  let traffic = false;
  for (const [connection, before] of connections) {
    const { bytesRead = 0, bytesWritten = 0 } = connection as { bytesRead?: number; bytesWritten?: number };
    if (bytesRead + bytesWritten === before) continue;
    connections.set(connection, bytesRead + bytesWritten);
    traffic = true;
  }
  return traffic;
}

/** Ends the connections into a sandbox; a client that reconnects wakes the sandbox. */
export function cutConnections({ connections }: SandboxRuntimeState): void {
  for (const connection of connections.keys()) connection.destroy();
  connections.clear();
}

/** Gives the lease holders a second to save what must outlive the processes. */
export async function notifyBeforeStop({ leases }: SandboxRuntimeState, timeoutMs = 1_000): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  const saved = Promise.allSettled([...leases].map(async (lease) => lease.beforeStop()));
  await Promise.race([saved, late]);
  clearTimeout(timer);
}

/** The running sandboxes whose files have a limit. */
export function* listRunning(
  states: ReadonlyMap<string, SandboxRuntimeState>,
): Iterable<{ id: string; userId: string; limitBytes: number }> {
  for (const { id, userId, status, incarnation, diskLimit } of states.values())
    if (status === "RUNNING" && incarnation !== undefined && diskLimit !== undefined)
      yield { id, userId, limitBytes: diskLimit };
}
