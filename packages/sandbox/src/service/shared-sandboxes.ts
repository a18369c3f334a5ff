/** The slots of running sandboxes that several servers share. Holders are ids of sandboxes. */
export interface SharedSlots {
  /** Takes a slot; false: the sandbox waits for one, in order. Throws what the store throws. */
  acquire(userId: string, id: string): boolean | Promise<boolean>;
  /** Takes a slot even when none is free. Never rejects. */
  keep(userId: string, id: string): Promise<void>;
  has(id: string): boolean;
  /** Position in the user's queue, from 1; undefined when the sandbox does not wait. */
  position(userId: string, id: string): number | undefined;
  /** Returns the slot of a sandbox, or takes the sandbox out of the queue. */
  release(userId: string, id: string): void;
  /** Users whose sandboxes have waited at other servers for a second. Never rejects. */
  usersWaiting(): Promise<string[]>;
  /** Whether this server should free a slot of the user for another one. Never rejects. */
  shouldFree(userId: string): Promise<boolean>;
}

/** Notes which sandboxes of a shared store this server owns. */
export interface SharedSandboxes {
  /** Undefined when this server does not own the sandbox, or cannot know whether it does. */
  ownerOf(id: string): object | undefined;
  /** Notes that this server is the first owner of a sandbox, which it creates. */
  noteCreated(id: string): void;
  /** Notes that a sandbox was removed. */
  noteRemoved(id: string): void;
}
