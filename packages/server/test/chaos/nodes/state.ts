import type { S3Server } from "@sandpiper/core/test/support/s3-server";
import type { Worker } from "../all-faults/state.ts";
import type { StoredRecord } from "../every-append/log.ts";
import type { Cluster } from "./cluster.ts";

/** A conversation in progress. */
export interface ActiveConversation {
  id: string;
  worker: Worker;
  /** The logs of the conversation at each fault. */
  readonly earlier: ReadonlyMap<string, readonly StoredRecord[]>[];
  /** Time of its begin, milliseconds since the epoch. */
  readonly begun: number;
  /** Its sandbox rests, so that its user does nothing. */
  resting: boolean;
  /** How many faults occurred during the conversation, each counted once. */
  faults: number;
}

/** A running conversation whose node died. */
export interface Orphan {
  id: string;
  /** Time of the node's death, milliseconds since the epoch. */
  at: number;
  /** Sequence number of the conversation's last record at that time. */
  seq: number;
}

export interface NodesState {
  readonly cluster: Cluster;
  /** Undefined where no S3 server is built: then no sandbox rests. */
  readonly blobs: S3Server | undefined;
  readonly active: Set<ActiveConversation>;
  /** True when lanes start no new conversations. */
  closing: boolean;
  readonly problems: string[];
  /** Folder for what is known about conversations with problems. */
  readonly folder: string;
  /** The begins and ends of all faults. */
  readonly happened: { at: number; name: string }[];
  /** Number of conversations that have ended, forks included. */
  finished: number;
  readonly orphans: Orphan[];
  /** Times from a node's death to the next event of each of its conversations, ms. */
  readonly takeovers: number[];
  /** Time until which a conversation that begins counts the last fault, ms since the epoch. */
  faultUntil: number;
  /** Number of sandboxes whose files came from the shared blobs. */
  moved: number;
  /** Number of lines that users have typed into terminals. */
  typed: number;
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
