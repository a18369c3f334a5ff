/** A node: one server process of an installation. */
export interface NodeRow {
  /** Random id of a process; after a lease that has expired it gets another one. */
  incarnation: string;
  /** Address at which other nodes reach it, without a trailing slash. */
  url: string;
  /** The place whose sandboxes it can run; null: only those that every node can run. */
  place: string | null;
  /** Version of the platform. */
  version: string;
  /** It hands its sandboxes over and takes no further ones. */
  isDraining: boolean;
}

/** Who owns a sandbox. */
export interface SandboxOwner {
  /** The node, if it has one and its lease has not expired. */
  node: NodeRow | undefined;
  /** Where its files are; null: every node can run it. */
  place: string | null;
}

/** A sandbox that a node has begun to own. */
export interface ClaimedSandbox {
  id: string;
  /** Number of this ownership; each one is higher than those before it. */
  epoch: number;
  /** It was at another place, whose machine is gone: its processes and files are lost. */
  isMoved: boolean;
}

export interface ClaimRequest {
  incarnation: string;
  /**
   * `active`: sandboxes that run or start, or in whose conversations something runs; `resting`: the
   * others; else those of these ids.
   */
  which: "active" | "resting" | readonly string[];
  /**
   * The sandboxes that the node knows to be its own. Others of which the database says so are
   * claimed again: the answer to their first claim was lost. Undefined: there are none of these.
   */
  known?: readonly string[] | undefined;
  limit: number;
  /**
   * How long no node of a sandbox's place must have been there, while the claiming node was, before
   * that may take the sandbox without its files, ms.
   */
  lostAfterMs: number;
}

/**
 * The nodes of an installation, and which of them owns each sandbox with its conversations. All
 * times are those of the database, so that the clocks of the nodes do not matter.
 */
export interface NodeStore {
  /** Random id (a UUID) of the installation. */
  readonly installation: string;
  /** Adds a node whose lease lasts `leaseMs`. */
  join(node: NodeRow, leaseMs: number): Promise<void>;
  /** Extends a lease that has not expired. False: it has, and another node may own what it had. */
  renew(node: Pick<NodeRow, "incarnation" | "isDraining">, leaseMs: number): Promise<boolean>;
  /** Removes a node; its sandboxes have no owner any more. */
  leave(incarnation: string): Promise<void>;
  /** The nodes whose lease has not expired, oldest first. */
  list(): Promise<NodeRow[]>;
  /**
   * Makes a node with a valid lease the owner of sandboxes that have no owner or an expired one,
   * and of their conversations. Sandboxes that another node claims at the same time are left out.
   */
  claim(request: ClaimRequest): Promise<ClaimedSandbox[]>;
  /** Ends the ownership of sandboxes that the node owns. */
  release(incarnation: string, ids: readonly string[]): Promise<void>;
  /** Undefined when there is no such sandbox. */
  findOwner(sandboxId: string): Promise<SandboxOwner | undefined>;
}
