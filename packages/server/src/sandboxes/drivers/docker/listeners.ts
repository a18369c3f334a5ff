/** The listening sockets inside sandboxes. An open one keeps the network namespace of ended processes alive, so they end with them. */
export class Listeners {
  readonly #open = new Map<string, Set<{ close(): void }>>();

  /** Gives the listener as its owner closes it. */
  add(id: string, listener: { close(): void }): { close(): void } {
    const own = this.#open.get(id) ?? new Set();
    this.#open.set(id, own.add(listener));
    return {
      close: () => {
        own.delete(listener);
        listener.close();
      },
    };
  }

  close(id: string): void {
    for (const listener of this.#open.get(id) ?? []) listener.close();
    this.#open.delete(id);
  }

  closeAll(): void {
    for (const id of [...this.#open.keys()]) this.close(id);
  }
}
