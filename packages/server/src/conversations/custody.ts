import { abortable } from "@sandpiper/core/abortable";
import { PlatformError } from "@sandpiper/core/errors";
import type { RunOwner } from "../store/event-log.ts";

/** The part of a node in the ownership of sandboxes, as the conversations in them see it. */
export interface SandboxOwnership {
  /** Id of this node's current time in the cluster. */
  readonly incarnation: string;
  /** This node as the owner of a sandbox; undefined: it does not own it (any more). */
  ownerOf(sandboxId: string): RunOwner | undefined;
}

/** Released sandboxes that are remembered; beyond, those of other nodes are forgotten. */
const maxReleased = 10_000;

/**
 * The sandboxes whose conversations are handled by this process. It ends the work in those that go
 * to another one. A server that is alone has all of them.
 */
export class Custody {
  readonly #ownership: SandboxOwnership | undefined;
  /** Sandboxes that were released and not adopted again. */
  readonly #released = new Set<string>();
  /** What became of sandboxes whose machine was lost. */
  readonly #losses = new Map<string, string>();
  /** What ends the work in a sandbox. */
  readonly #endings = new Map<string, Set<(reason: PlatformError) => void>>();
  /** Called when the store refuses an append, because another node owns the sandbox. */
  onFenced = (_sandboxId: string) => {};

  constructor(ownership?: SandboxOwnership) {
    this.#ownership = ownership;
  }

  /** Id of this node's current time in the cluster; undefined in a server that is alone. */
  get incarnation(): string | undefined {
    return this.#ownership?.incarnation;
  }

  /** Whether runs of the sandbox's conversations may begin here. */
  isHere(sandboxId: string): boolean {
    const ownership = this.#ownership;
    return !this.#released.has(sandboxId) && (!ownership || ownership.ownerOf(sandboxId) !== undefined);
  }

  /** Whether the sandbox was handed over or lost, and was not adopted again. */
  isReleased(sandboxId: string): boolean {
    return this.#released.has(sandboxId);
  }

  /**
   * Who appends for runs in the sandbox; undefined in a server that is alone. Throws OwnershipLost.
   */
  requireOwner(sandboxId: string): RunOwner | undefined {
    if (!this.#ownership) return undefined;
    const owner = this.#ownership.ownerOf(sandboxId);
    if (!owner) throw new PlatformError("EpochPassed");
    return owner;
  }

  /**
   * Does work that ends when the sandbox goes to another node: the signal is aborted then, and this
   * throws SandboxMoved. Work that ignores the signal continues unobserved.
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

  /** Ends the work in sandboxes; none begins until they are taken again. */
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

  /** `losses`: what became of those whose machine was lost. */
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
