/** What a user may have a limited number of at a time, on all nodes together. */
export type SlotKind = "run" | "sandbox";

/** The slots of a user, as one node uses them. */
export interface SlotsOf {
  kind: SlotKind;
  userId: string;
  /** Incarnation of the node. */
  node: string;
  /** Number of slots of the user. */
  max: number;
}

/** A holder of this node that waits for a slot or has just got one. */
export interface SlotPlace {
  /** Id of the conversation that runs, or of the sandbox. */
  holder: string;
  /** Position in the queue of the user, from 1; 0: the holder has just got its slot. */
  position: number;
}

/**
 * The slots that limit the work of each user over all nodes. A slot belongs to a node: it is free
 * when the node's lease has expired. The slot of a sandbox that is recorded as running is not free
 * then, because the sandbox runs on.
 */
export interface SlotStore {
  /**
   * Adds a holder to the user's queue, and gives free slots to those that wait longest. Returns the
   * places of this node's holders that wait or have just got a slot: a new holder that is not among
   * them has its slot already. A holder of another node becomes one of this node and keeps its
   * place. `force` gives the holder a slot even when none is free.
   */
  share(slots: SlotsOf, holder?: string, options?: { force: boolean }): Promise<SlotPlace[]>;
  /** Returns the slot of a holder, or ends its wait. Does nothing for a holder of another node. */
  free(slots: Pick<SlotsOf, "kind" | "userId" | "node">, holder: string): Promise<void>;
  /** Users whose holders have waited at nodes other than this one for a second. */
  usersWaiting(slots: Pick<SlotsOf, "kind" | "node">): Promise<string[]>;
  /**
   * Whether this node should free a slot for a holder that has waited at another node for a second.
   * Other nodes do not get the same answer for the next five seconds.
   */
  shouldFree(slots: SlotsOf): Promise<boolean>;
  /** Calls the listener when another node has freed a slot. A notification can be lost. */
  onFreed(listener: (kind: SlotKind, userId: string) => void): void;
}
