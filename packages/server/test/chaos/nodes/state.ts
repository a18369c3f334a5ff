import type { Worker } from "../all-faults/state.ts";
import type { StoredRecord } from "../every-append/log.ts";
import type { Cluster } from "./cluster.ts";

/** A conversation in progress. */
export interface ActiveConversation {
  id: string;
  worker: Worker;
  /** Its logs at faults. */
  readonly earlier: ReadonlyMap<string, readonly StoredRecord[]>[];
  /** How many faults occurred during the conversation. */
  faults: number;
}

/** A running conversation whose node died. */
export interface Orphan {
  id: string;
  /** Milliseconds since the epoch. */
  at: number;
  /** Number of its last record then. */
  seq: number;
}

export interface NodesState {
  readonly cluster: Cluster;
  readonly active: Set<ActiveConversation>;
  /** No new conversation is started. */
  closing: boolean;
  readonly problems: string[];
  /** Number of conversations that have ended, forks included. */
  finished: number;
  readonly orphans: Orphan[];
  /** From a node's death to the next event of each of its conversations, ms. */
  readonly takeovers: number[];
  /** Lines that users typed into terminals. */
  typed: number;
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
