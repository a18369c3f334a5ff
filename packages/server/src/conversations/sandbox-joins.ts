import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";

/**
 * Orders the conversations that join an existing sandbox against its removal with its last
 * conversation: the removal waits for those that are about to be stored in it, and none joins a
 * sandbox that is being removed.
 */
export class SandboxJoins {
  readonly #sandboxes: Pick<Sandboxes, "get" | "acquire">;
  /** By sandbox, a promise for each conversation that is not stored yet. */
  readonly #joining = new Map<string, Set<Promise<void>>>();
  readonly #removing = new Set<string>();

  constructor(sandboxes: Pick<Sandboxes, "get" | "acquire">) {
    this.#sandboxes = sandboxes;
  }

  /** False while the sandbox is being removed with its last conversation. */
  isOpen(sandboxId: string): boolean {
    return !this.#removing.has(sandboxId);
  }

  /**
   * Keeps a sandbox for a conversation until the returned function is called, when the conversation
   * is stored or never will be. Throws SandboxNotFound.
   */
  join(userId: string, sandboxId: string): () => void {
    if (!this.isOpen(sandboxId) || !this.#sandboxes.get(userId, sandboxId))
      throw new PlatformError("StartSandboxUnknown", { id: sandboxId });
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
    const leave = this.join(userId, sandboxId);
    return store().finally(leave);
  }

  /**
   * Waits until no conversation is joining, and removes the sandbox if `isUnused` then. Returns
   * false if it is used.
   */
  async remove(sandboxId: string, isUnused: () => boolean, remove: () => Promise<unknown>): Promise<boolean> {
    while (this.#joining.has(sandboxId)) await Promise.all(this.#joining.get(sandboxId)!);
    if (!isUnused()) return false;
    this.#removing.add(sandboxId);
    await remove().finally(() => this.#removing.delete(sandboxId));
    return true;
  }
}

export interface JoinedSandbox {
  userId: string;
  sandboxId: string;
}
