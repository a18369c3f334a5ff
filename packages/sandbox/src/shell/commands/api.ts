import type { ExecuteBashRequest } from "@sandpiper/wire";
import type { SandboxRow } from "../../sandbox-store.ts";

/** What to look for; ids are 32 hex digits, times microseconds since the epoch. */
export interface BashQuery {
  kind?: "BashCommand" | "BashOutput" | undefined;
  commandId?: string | undefined;
  timeGte?: number | undefined;
  timeLt?: number | undefined;
  /** Only outputs after this one of their command. */
  orderGt?: number | undefined;
  descending?: boolean;
  pageId?: string | undefined;
  limit: number;
}

/** An event as it is stored, with its place among the events of its sandbox. */
export interface PositionedEvent {
  /** Microseconds since the epoch; no two events of a sandbox have the same. */
  micros: number;
  json: string;
}

/**
 * Commands in sandboxes, each a process of its own beside the agent's terminal, and what they printed (agent-server.md section 7).
 * Events are JSON texts of the wire. Reading never wakes a sandbox. Reads and writes throw StorageFull where the disk is.
 */
export interface Bash {
  /**
   * Stores a command and starts it in the background, waking the sandbox. Gives its BashCommand. What goes wrong later becomes its last output.
   * Throws SandboxFailed, TooManyRequests where too many wait, BodyTooLarge, StorageFull.
   */
  start(row: SandboxRow, request: ExecuteBashRequest): Promise<string>;
  /** Waits for the end, and gives the last BashOutput: all that was printed, up to nearly 1 MiB. Throws what `start` throws. */
  execute(row: SandboxRow, request: ExecuteBashRequest): Promise<string>;
  /** The events as the bytes of their JSON: a page may have some megabytes. */
  search(sandboxId: string, query: BashQuery): Promise<{ items: Buffer[]; nextPageId: string | null }>;
  /** In the order of the ids; null for unknown ones. */
  batch(sandboxId: string, ids: readonly string[]): Promise<(string | null)[]>;
  /** Removes the events of all commands that have ended; gives how many those were. */
  clear(sandboxId: string): Promise<number>;
  /** The place of the newest event; 0 where there is none. */
  newest(sandboxId: string): Promise<number>;
  /** Some events after a place, in order; none where there are none yet. */
  after(sandboxId: string, micros: number): Promise<PositionedEvent[]>;
  /** Calls back whenever a sandbox has a new event, until the returned function is called. */
  follow(sandboxId: string, listener: () => void): () => void;
  /** Ends what runs. Sandboxes go on. */
  close(): Promise<void>;
}
