import type { Duplex } from "node:stream";
import type { SandboxRow } from "../sandbox-store.ts";

/** Someone who works in a sandbox over many calls, such as a conversation with its shell. */
export interface Lease {
  /** Work goes on for which the sandbox has to run. */
  busy(): boolean;
  /** The processes are about to be ended: what has to outlive them is to be written into the sandbox's files now. Nobody waits longer than a second. */
  beforeStop(): Promise<void>;
}

/** What the server knows of a sandbox beyond its record. */
export interface SandboxRuntimeState {
  readonly id: string;
  readonly userId: string;
  /** As recorded. */
  status: SandboxRow["status"];
  /** Incarnation of the processes that are there, as far as is known. */
  incarnation: string | undefined;
  /** The processes were ended on purpose, so the engine need not be asked for them. */
  stopped: boolean;
  /** Bytes that its files may take; undefined before its first start. */
  diskLimit: number | undefined;
  lastUsedAt: number;
  /** The last use that the store knows. */
  storedUseAt: number;
  pausedAt: number;
  /** Has a place among the running sandboxes of its user; see `room.ts`. */
  hasSlot: boolean;
  /** Commands without a terminal that run. */
  runningCommands: number;
  readonly leases: Set<Lease>;
  /** Connections into the sandbox, with the bytes that had passed when they were last looked at. */
  readonly connections: Map<Duplex, number>;
  /** Aborted while it is deleted: what is under way is broken off. */
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
    hasSlot: false,
    runningCommands: 0,
    leases: new Set(),
    connections: new Map(),
    removal: new AbortController(),
  };
}

/** True while work goes on for which the sandbox has to run. */
export function isBusy(live: SandboxRuntimeState): boolean {
  return live.runningCommands > 0 || [...live.leases].some((occupant) => occupant.busy());
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

/** Ends the connections into a sandbox whose processes will not answer: a client that connects again wakes it. */
export function cutConnections({ connections }: SandboxRuntimeState): void {
  for (const connection of connections.keys()) connection.destroy();
  connections.clear();
}

/** Gives the occupants a second to write what has to outlive the processes. */
export async function notifyBeforeStop(
  { leases: occupants }: SandboxRuntimeState,
  patienceMs = 1_000,
): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, patienceMs);
  const told = Promise.allSettled([...occupants].map(async (occupant) => occupant.beforeStop()));
  await Promise.race([told, late]);
  clearTimeout(timer);
}
