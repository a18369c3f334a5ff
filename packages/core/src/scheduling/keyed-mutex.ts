/** Runs the operations of one key one after another; keys are independent of each other. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<unknown>>();

  /**
   * Runs the operation when all earlier ones of the key have ended, failed ones included. Gives its
   * result.
   */
  run<T>(key: string, operation: () => Promise<T>): Promise<T> {
    const result = (this.#tails.get(key) ?? Promise.resolve()).then(operation);
    const tail = result.then(
      () => {},
      () => {},
    );
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    return result;
  }

  /** Resolves when the operations that were added so far have ended. */
  async idle(key: string): Promise<void> {
    await this.#tails.get(key);
  }

  async allIdle(): Promise<void> {
    await Promise.all(this.#tails.values());
  }
}
