import type { RunOwner } from "../store/event-log.ts";
import type { ClaimedSandbox, NodeRow } from "../store/node-store.ts";

/** Stands for a sandbox that a request creates. */
export const newSandbox = Symbol("new sandbox");

/** The sandbox that a request concerns: its id, or the sandbox that the request creates. */
export type SandboxRef = string | typeof newSandbox;

/** Which node handles a sandbox with its conversations. */
export type SandboxLocation = "here" | NodeRow;

/** Which sandboxes this node owns. Everything live about a sandbox is in its owner. */
export interface Ownership {
  /** Joins the cluster and claims sandboxes from now on. Throws what the store throws. */
  open(duties: OwnerDuties): Promise<void>;
  /**
   * This node's incarnation and epoch as the owner of a sandbox; undefined: this node does not own
   * it.
   */
  ownerOf(sandboxId: string): RunOwner | undefined;
  /** Number of living nodes, this one included, as of the last look. */
  readonly nodeCount: number;
  /** Notes that this node is the first owner of a sandbox, which it creates. */
  noteCreated(sandboxId: string): void;
  /** Notes that a sandbox was removed. */
  noteRemoved(sandboxId: string): void;
  /**
   * Finds the node that owns a sandbox; when no node owns it, this node claims it. This node
   * handles an unknown sandbox. For a new sandbox, finds the node that creates it. Throws
   * NodeUnreachable when no node can handle the sandbox now.
   */
  locate(sandbox: SandboxRef): Promise<SandboxLocation>;
  /** Releases all sandboxes and claims no further ones. */
  drain(): Promise<void>;
  /** Leaves the cluster; other nodes may claim the sandboxes of this node at once. */
  close(): Promise<void>;
}

/** What a node does when it begins or ceases to own sandboxes. */
export interface OwnerDuties {
  /**
   * Continues what an earlier owner has left: sandboxes, starts, runs, goals, pending messages and
   * callbacks. Never rejects; a use of the sandbox retries what fails.
   */
  adopt(sandboxes: readonly ClaimedSandbox[]): Promise<void>;
  /**
   * Ends everything live about sandboxes in this node and leaves their processes running. `lost`:
   * another node may own the sandboxes, so this node writes nothing more; otherwise current steps
   * may end first. Never rejects.
   */
  release(sandboxIds: readonly string[], how: { lost: boolean }): Promise<void>;
  /**
   * Continues the starts that this node owns, and those without a sandbox whose node has ended.
   * Never rejects.
   */
  adoptStarts(): Promise<void>;
}
