import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";

/**
 * Orders the conversations that join an existing sandbox against its removal with its last
 * conversation: the removal waits for those that are about to be stored in it, and none joins a
 * sandbox that is being removed.
 */
export class SandboxJoins {
  readonly #sandboxes: Pick<Sandboxes, "get" | "acquire">;
  readonly #isHere: (sandboxId: string) => boolean;
  /** By sandbox, a promise for each conversation that is not stored yet. */
  readonly #joining = new Map<string, Set<Promise<void>>>();
  /** Sandboxes that a removal checks for conversations. */
  readonly #checking = new Map<string, Promise<void>>();
  readonly #removing = new Set<string>();

  /**
   * `isHere` says whether this node handles a sandbox; a server that is alone needs no such
   * function.
   */
  constructor(
    sandboxes: Pick<Sandboxes, "get" | "acquire">,
    isHere: (sandboxId: string) => boolean = () => true,
  ) {
    this.#sandboxes = sandboxes;
    this.#isHere = isHere;
  }

  /** Whether a conversation that this server starts may join the sandbox. */
  mayJoin(sandboxId: string): boolean {
    return this.isOpen(sandboxId) && this.#isHere(sandboxId);
  }

  /** False while the sandbox is being removed with its last conversation. */
  isOpen(sandboxId: string): boolean {
    return !this.#removing.has(sandboxId);
  }

  /**
   * Keeps a sandbox for a conversation until the returned function is called, when the conversation
   * is stored or never will be. Throws SandboxNotFound.
   */
  async join(userId: string, sandboxId: string): Promise<() => void> {
    // A conversation that was stored during the check would be missing from its result.
    for (let check = this.#checking.get(sandboxId); check; check = this.#checking.get(sandboxId)) await check;
    // The join is noted before the record is read, so that a removal waits for the join.
    const leave = this.#enter(sandboxId);
    try {
      if (await this.#sandboxes.get(userId, sandboxId)) return leave;
    } catch (error) {
      leave();
      throw error;
    }
    leave();
    throw unknownSandbox(sandboxId);
  }

  #enter(sandboxId: string): () => void {
    if (!this.isOpen(sandboxId)) throw unknownSandbox(sandboxId);
    const joining = this.#joining.get(sandboxId) ?? new Set();
    this.#joining.set(sandboxId, joining);
    const { promise, resolve } = Promise.withResolvers<void>();
    joining.add(promise);
    // It is neither paused for another sandbox nor deleted as unused meanwhile.
    const release = this.#sandboxes.acquire(sandboxId, { busy: () => true, beforeStop: async () => {} });
    return () => {
      if (!joining.delete(promise)) return;
      release();
      if (joining.size === 0) this.#joining.delete(sandboxId);
      resolve();
    };
  }

  /** Runs `store`, which stores a conversation in the sandbox. Throws SandboxNotFound. */
  async run<T>({ userId, sandboxId }: JoinedSandbox, store: () => Promise<T>): Promise<T> {
    const leave = await this.join(userId, sandboxId);
    return store().finally(leave);
  }

  /**
   * Waits until no conversation is joining, and removes the sandbox if `isUnused` then. Returns
   * false if it is used.
   */
  async remove(
    sandboxId: string,
    isUnused: () => Promise<boolean>,
    remove: () => Promise<unknown>,
  ): Promise<boolean> {
    for (let wait = this.#othersOf(sandboxId); wait; wait = this.#othersOf(sandboxId)) await wait;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#checking.set(sandboxId, promise);
    try {
      if (!(await isUnused())) return false;
      this.#removing.add(sandboxId);
    } finally {
      this.#checking.delete(sandboxId);
      resolve();
    }
    await remove().finally(() => this.#removing.delete(sandboxId));
    return true;
  }

  /** The check of another removal, or the joins in progress; undefined when there is neither. */
  #othersOf(sandboxId: string): Promise<unknown> | undefined {
    const joining = this.#joining.get(sandboxId);
    return this.#checking.get(sandboxId) ?? (joining && Promise.all(joining));
  }
}

function unknownSandbox(id: string): PlatformError {
  return new PlatformError("StartSandboxUnknown", { id });
}

export interface JoinedSandbox {
  userId: string;
  sandboxId: string;
}
