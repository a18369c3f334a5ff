import { abortable } from "@sandpiper/core/abortable";
import { PlatformError } from "@sandpiper/core/errors";
import type { RunOwner } from "../store/event-log.ts";

/** Which sandboxes this node owns, as far as the conversations in them need it. */
export interface SandboxOwnership {
  /** Incarnation of this node. */
  readonly incarnation: string;
  /**
   * Incarnation and epoch of this node as the owner of a sandbox; undefined: this node does not own
   * it.
   */
  ownerOf(sandboxId: string): RunOwner | undefined;
}

/**
 * Most released sandboxes that this node remembers; above this number it forgets those of other
 * nodes.
 */
const maxReleased = 10_000;

/**
 * The sandboxes whose conversations this server handles. Ends the work in sandboxes that go to
 * another node. A server that is alone handles all sandboxes.
 */
export class Custody {
  readonly #ownership: SandboxOwnership | undefined;
  /** Sandboxes that this node has released and not adopted again. */
  readonly #released = new Set<string>();
  /** For each sandbox whose machine was lost, a sentence that says what is lost. */
  readonly #losses = new Map<string, string>();
  /** Functions that end the work in a sandbox, by sandbox. */
  readonly #endings = new Map<string, Set<(reason: PlatformError) => void>>();
  /**
   * This function is called when the store refuses an append because another node owns the sandbox.
   */
  onFenced = (_sandboxId: string) => {};

  constructor(ownership?: SandboxOwnership) {
    this.#ownership = ownership;
  }

  /** Incarnation of this node; undefined in a server that is alone. */
  get incarnation(): string | undefined {
    return this.#ownership?.incarnation;
  }

  /** Whether runs of the sandbox's conversations may begin here. */
  isHere(sandboxId: string): boolean {
    const ownership = this.#ownership;
    return !this.#released.has(sandboxId) && (!ownership || ownership.ownerOf(sandboxId) !== undefined);
  }

  /** Whether this node has released or lost the sandbox, and has not adopted it again. */
  isReleased(sandboxId: string): boolean {
    return this.#released.has(sandboxId);
  }

  /**
   * Owner and epoch that appends of runs in the sandbox carry; undefined in a server that is alone.
   * Throws OwnershipLost.
   */
  requireOwner(sandboxId: string): RunOwner | undefined {
    if (!this.#ownership) return undefined;
    const owner = this.#ownership.ownerOf(sandboxId);
    if (!owner) throw new PlatformError("EpochPassed");
    return owner;
  }

  /**
   * Does work in a sandbox that must end when the sandbox goes to another node. Then the signal is
   * aborted, and the call throws SandboxMoved. Work that ignores the signal continues, and nobody
   * sees its result.
   */
  async during<T>(sandboxId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#released.has(sandboxId)) throw makeMoved();
    const controller = new AbortController();
    const end = (reason: PlatformError) => controller.abort(reason);
    const endings = this.#endings.get(sandboxId) ?? new Set();
    this.#endings.set(sandboxId, endings.add(end));
    try {
      return await abortable(work(controller.signal), controller.signal);
    } finally {
      endings.delete(end);
      if (endings.size === 0 && this.#endings.get(sandboxId) === endings) this.#endings.delete(sandboxId);
    }
  }

  /** Ends the work in sandboxes. No work begins in them until this node adopts them again. */
  leave(sandboxIds: Iterable<string>): void {
    for (const id of sandboxIds) {
      this.#released.add(id);
      this.#losses.delete(id);
      const endings = this.#endings.get(id);
      this.#endings.delete(id);
      for (const end of endings ?? []) end(makeMoved());
    }
    for (const id of this.#released) {
      if (this.#released.size <= maxReleased) break;
      if (this.#ownership?.ownerOf(id) === undefined) this.#released.delete(id);
    }
  }

  /**
   * Takes sandboxes, so that work may begin in them. `losses` says what is lost with a lost
   * machine.
   */
  take(sandboxIds: Iterable<string>, losses: ReadonlyMap<string, string> = new Map()): void {
    for (const id of sandboxIds) {
      this.#released.delete(id);
      const loss = losses.get(id);
      if (loss !== undefined) this.#losses.set(id, loss);
    }
  }

  /** What became of a sandbox when its machine was lost, since this server has it. */
  lossOf(sandboxId: string): string | undefined {
    return this.#losses.get(sandboxId);
  }
}

/** The error for callers that wait for a conversation of another node. */
export function makeMoved(): PlatformError {
  return new PlatformError("SandboxHasMoved", { retryAfter: 1 });
}

/** Whether work failed because the sandbox belongs to another node. */
export function isMoved(error: unknown): boolean {
  return error instanceof PlatformError && (error.code === "SandboxMoved" || error.code === "OwnershipLost");
}
