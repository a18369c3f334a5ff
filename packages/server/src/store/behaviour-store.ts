import type { BehaviourPart } from "@sandpiper/wire";

/** What a project in a sandbox was found to do by itself. */
export interface BehaviourRow {
  /** The sandbox, or a snapshot of it. */
  holder: string;
  userId: string;
  workingDir: string;
  digest: string;
  /** Address of the repository, or what else names where the project comes from. */
  origin: string;
  parts: BehaviourPart[];
}

/** What a user has accepted. */
export interface AcceptanceRow extends Pick<BehaviourRow, "userId" | "digest" | "origin" | "parts"> {
  acceptedAt: number;
}

/**
 * What projects do by themselves, by sandbox, and what users have accepted. A snapshot of a sandbox
 * has its rows, and so has a sandbox that begins with the snapshot; they end with their holder.
 */
export interface BehaviourStore {
  /**
   * Stores a row, once for a holder and digest. Of the holder's rows before the newest `keep`, the
   * accepted ones are removed, and the others lose their parts: they still withhold secrets.
   */
  add(row: BehaviourRow, keep: number): Promise<void>;
  /** Rows of a user, newest first; of one sandbox with `holder`. */
  list(userId: string, holder?: string): Promise<BehaviourRow[]>;
  /** The newest row of a holder that its user has not accepted. */
  findUnaccepted(userId: string, holder: string): Promise<BehaviourRow | undefined>;
  /** The newest origin of a folder in a sandbox. */
  findOrigin(holder: string, workingDir: string): Promise<string | undefined>;
  accept(row: AcceptanceRow, max: number): Promise<void>;
  revoke(userId: string, digest: string): Promise<void>;
  /** Newest first. */
  listAccepted(userId: string): Promise<AcceptanceRow[]>;
}
