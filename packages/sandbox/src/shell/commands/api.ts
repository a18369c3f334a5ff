import type { ExecuteBashRequest } from "@sandpiper/wire";
import type { SandboxRow } from "../../sandbox-store.ts";

/**
 * Commands of a sandbox that belong together, with a history of their own. Without a group, reads
 * cover all commands of the sandbox.
 */
export interface CommandGroup {
  /** 32 hex digits. */
  id: string;
  /** Absolute path of a folder that is created before a command, if it is missing. */
  folder: string;
}

/** Ids are 32 hex digits, times microseconds since the epoch. */
export interface BashQuery {
  kind?: "BashCommand" | "BashOutput" | undefined;
  commandId?: string | undefined;
  timeGte?: number | undefined;
  timeLt?: number | undefined;
  /** Only outputs with a higher order. */
  orderGt?: number | undefined;
  descending?: boolean;
  /** Id of a group. */
  group?: string | undefined;
  pageId?: string | undefined;
  limit: number;
}

/** A stored event with its position. */
export interface PositionedEvent {
  /** Microseconds since the epoch; unique within a sandbox. */
  micros: number;
  json: string;
}

/**
 * Commands in sandboxes, separate from the agent's terminal, and their output (agent-server.md
 * section 7). Events are the JSON of the wire. Reading never wakes a sandbox. Reads and writes
 * throw StorageFull when the disk is full.
 */
export interface Bash {
  /**
   * Stores a command and starts it in the background, waking the sandbox. Returns its BashCommand.
   * A later failure becomes the last output. Throws SandboxFailed, TooManyRequests, BodyTooLarge,
   * StorageFull.
   */
  start(row: SandboxRow, request: ExecuteBashRequest, group?: CommandGroup): Promise<string>;
  /**
   * Waits for the end and returns the last BashOutput, with the output of all pieces up to 16 MiB.
   * Throws as `start`.
   */
  execute(row: SandboxRow, request: ExecuteBashRequest, group?: CommandGroup): Promise<string>;
  /**
   * Ends a command with exit code -15, and waits for that; an ended command stays as it is. Throws
   * EventNotFound.
   */
  stop(sandboxId: string, commandId: string, group?: string): Promise<void>;
  /** JSON of the events as bytes: a page may have some megabytes. */
  search(sandboxId: string, query: BashQuery): Promise<{ items: Buffer[]; nextPageId: string | null }>;
  /** In the order of the ids; null for unknown ids. */
  batch(sandboxId: string, ids: readonly string[], group?: string): Promise<(string | null)[]>;
  /** Removes the events of all ended commands; returns their number. */
  clear(sandboxId: string, group?: string): Promise<number>;
  /** The position of the newest event; 0 without events. */
  newest(sandboxId: string): Promise<number>;
  /** Some events after a position, in order. */
  after(sandboxId: string, micros: number): Promise<PositionedEvent[]>;
  /** Calls back for every new event, until the returned function is called. */
  follow(sandboxId: string, listener: () => void): () => void;
  /**
   * Ends the commands of sandboxes that another server handles from now on, and removes their
   * histories from memory, because that server writes to the histories. Never rejects.
   */
  release(sandboxIds: readonly string[]): Promise<void>;
  /** Ends all commands. Sandboxes continue to run. */
  close(): Promise<void>;
}
