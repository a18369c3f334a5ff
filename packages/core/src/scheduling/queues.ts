/** Serves operations of one key one after the other; keys are independent of each other. */
export class Queues {
  readonly #tails = new Map<string, Promise<unknown>>();

  /** Runs the operation once all earlier ones of the key have ended, whether well or not. Gives its result. */
  add<T>(key: string, operation: () => Promise<T>): Promise<T> {
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

  /** Resolves when the operations that are known now have ended. */
  async idle(key: string): Promise<void> {
    await this.#tails.get(key);
  }

  async allIdle(): Promise<void> {
    await Promise.all(this.#tails.values());
  }
}
