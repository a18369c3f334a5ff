/** Name under which the set of conversations changes: which there are, and what is filtered by, except the times of their last change. */
export const conversationSet = "conversations";

/** The most names that are told apart; beyond, everything counts as changed once more. */
const maxNames = 10_000;

/**
 * What was written, so that readers can keep what they have made: numbers that change with each write to a conversation or sandbox, by id, and with
 * `conversationSet`. A number has changed at the latest when the promise of the write resolves.
 */
export class Changes {
  readonly #changed = new Map<string, number>();
  #version = 0;
  #oldest = 0;

  /** Another number after each write that has a name here. */
  get version(): number {
    return this.#version;
  }

  /** Another number after each write to this. */
  of(name: string): number {
    return this.#changed.get(name) ?? this.#oldest;
  }

  touch(names: readonly string[]): void {
    if (names.length === 0) return;
    this.#version++;
    if (this.#changed.size + names.length > maxNames) {
      this.#changed.clear();
      this.#oldest = this.#version;
    }
    for (const name of names) this.#changed.set(name, this.#version);
  }
}
