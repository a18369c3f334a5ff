/** A node: one server process of an installation. */
export interface NodeRow {
  /**
   * Incarnation: the random id of a process, which gets another one after its lease has expired.
   */
  incarnation: string;
  /** Address at which other nodes reach it, without a trailing slash. */
  url: string;
  /**
   * The place whose sandboxes the node can run; null: it can run only sandboxes without a place.
   */
  place: string | null;
  /** Version of the platform. */
  version: string;
  /** True when the node drains: it releases its sandboxes and claims no further ones. */
  isDraining: boolean;
}

/** A node, and how many sandboxes it runs. */
export interface NodeLoad extends NodeRow {
  /** Number of sandboxes of the node that run or start, or that an open start will create. */
  running: number;
}

/** The owner and the place of a sandbox. */
export interface SandboxOwner {
  /** The owner; undefined when the sandbox has no owner, or the owner's lease has expired. */
  node: NodeRow | undefined;
  /** The place of the sandbox; null: every node can run it. */
  place: string | null;
}

/** A sandbox that a node has begun to own. */
export interface ClaimedSandbox {
  id: string;
  /** Epoch of this ownership, higher than all earlier epochs of the sandbox. */
  epoch: number;
  /**
   * True when the sandbox was at another place, whose machine is gone: its processes and files are
   * lost.
   */
  isMoved: boolean;
}

export interface ClaimRequest {
  incarnation: string;
  /**
   * `active` means sandboxes that run or start, or in whose conversations something runs; `resting`
   * means the others; a list means the sandboxes with these ids.
   */
  which: "active" | "resting" | readonly string[];
  /**
   * The sandboxes that the node knows as its own. The node claims other sandboxes of which the
   * database says that it owns them again, because the answer to their first claim was lost.
   * Undefined: no answer was lost.
   */
  known?: readonly string[] | undefined;
  limit: number;
  /**
   * A node of another place claims a sandbox without its files when no node of the sandbox's place
   * has been alive for this long, and the claiming node has been alive for as long, ms.
   */
  lostAfterMs: number;
}

/**
 * The nodes of an installation, and the owner of each sandbox with its conversations. All times
 * come from the clock of the database, so the clocks of the nodes do not matter.
 */
export interface NodeStore {
  /** Random id (a UUID) of the installation. */
  readonly installation: string;
  /** Adds a node whose lease lasts `leaseMs`. */
  join(node: NodeRow, leaseMs: number): Promise<void>;
  /**
   * Extends a lease that has not expired. Returns false when the lease has expired: other nodes may
   * own the node's sandboxes.
   */
  renew(node: Pick<NodeRow, "incarnation" | "isDraining">, leaseMs: number): Promise<boolean>;
  /** Ends the lease of this node, so that its sandboxes have no owner. */
  leave(incarnation: string): Promise<void>;
  /** Ends the lease of another node, whose process has ended. An unknown node is no error. */
  end(incarnation: string): Promise<void>;
  /**
   * Takes back the unclean ends that claims have counted for running conversations, because the
   * former node of their sandboxes lives.
   */
  takeBackEnds(sandboxIds: readonly string[]): Promise<void>;
  /** The nodes whose lease has not expired, oldest first. */
  list(): Promise<NodeRow[]>;
  /** The nodes as in `list`, with their loads. */
  loads(): Promise<NodeLoad[]>;
  /**
   * Makes a node with a valid lease the owner of sandboxes that have no owner or an expired one,
   * and of their conversations. Counts an unclean end for each conversation that ran in a node
   * whose process has ended, or without a place in a node whose lease has expired. Sandboxes that
   * another node claims at the same time are left out.
   */
  claim(request: ClaimRequest): Promise<ClaimedSandbox[]>;
  /**
   * Makes a node with a valid lease the owner of conversations without an owner, or with an expired
   * one, that run in a deleted sandbox. Returns the ids of at most `limit` deleted sandboxes.
   */
  claimOrphans(incarnation: string, limit: number): Promise<ClaimedSandbox[]>;
  /** Ends the ownership of sandboxes that the node owns. */
  release(incarnation: string, ids: readonly string[]): Promise<void>;
  /** Finds the owner and the place of a sandbox; undefined when there is no such sandbox. */
  findOwner(sandboxId: string): Promise<SandboxOwner | undefined>;
}
