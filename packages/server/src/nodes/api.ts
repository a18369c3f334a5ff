import type { RunOwner } from "../store/event-log.ts";
import type { ClaimedSandbox, NodeRow } from "../store/node-store.ts";

/** Where a sandbox with its conversations is handled. */
export type SandboxLocation = "here" | NodeRow;

/** Which sandboxes this node owns. Only the owner of a sandbox has what is live about it. */
export interface Ownership {
  /** Takes part in the ownership of sandboxes from now on. Throws what the store throws. */
  open(duties: OwnerDuties): Promise<void>;
  /** This node's ownership of a sandbox; undefined: it does not own it (any more). */
  ownerOf(sandboxId: string): RunOwner | undefined;
  /** Notes that this node is the first owner of a sandbox, which it creates. */
  noteCreated(sandboxId: string): void;
  /** Notes that a sandbox is gone. */
  noteRemoved(sandboxId: string): void;
  /**
   * Finds the node that handles a sandbox, and makes it this one when there is none. An unknown
   * sandbox is handled here. Throws NodeUnreachable when no node can handle it now.
   */
  locate(sandboxId: string): Promise<SandboxLocation>;
  /** Hands all sandboxes over and takes no further ones. */
  drain(): Promise<void>;
  /** Ends the part of this node; other nodes may claim its sandboxes at once. */
  close(): Promise<void>;
}

/** What a node does with the sandboxes that it begins or ceases to own. */
export interface OwnerDuties {
  /**
   * Continues what an earlier owner left: sandboxes, starts, runs, goals, pending messages and
   * callbacks. Never rejects; what fails is retried by a use of the sandbox.
   */
  adopt(sandboxes: readonly ClaimedSandbox[]): Promise<void>;
  /**
   * Ends what is live about sandboxes here and leaves their processes running. `lost`: another node
   * may own them, so nothing more is written; otherwise current steps may end first. Never rejects.
   */
  release(sandboxIds: readonly string[], how: { lost: boolean }): Promise<void>;
  /** Continues starts that have no sandbox yet and whose node has ended. Never rejects. */
  adoptStarts(): Promise<void>;
}
