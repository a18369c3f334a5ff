interface Closable {
  close(): void;
}

/** Listeners by sandbox. An open one keeps the network of ended processes alive. */
export class Listeners {
  readonly #open = new Map<string, { sockets: Set<Closable>; watch: AbortController }>();

  /**
   * Returns the listener for its owner to close. `watch` starts with the first listener of a
   * sandbox: it calls `onEnd` when the processes end, until the signal is aborted.
   */
  add(
    id: string,
    listener: Closable,
    watch: (signal: AbortSignal, onEnd: () => void) => void = () => {},
  ): Closable {
    const own = this.#open.get(id) ?? { sockets: new Set(), watch: new AbortController() };
    if (!this.#open.has(id)) {
      this.#open.set(id, own);
      watch(own.watch.signal, () => this.#open.get(id) === own && this.close(id));
    }
    own.sockets.add(listener);
    return {
      close: () => {
        if (own.sockets.delete(listener)) listener.close();
      },
    };
  }

  /** Closes the listeners of a sandbox. */
  close(id: string): void {
    const own = this.#open.get(id);
    this.#open.delete(id);
    own?.watch.abort();
    for (const socket of own?.sockets ?? []) socket.close();
    own?.sockets.clear();
  }

  closeAll(): void {
    for (const id of [...this.#open.keys()]) this.close(id);
  }
}
