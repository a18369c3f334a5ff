import type Docker from "dockerode";

interface Closable {
  close(): void;
}

/**
 * The listening sockets inside sandboxes. They are closed when the engine reports the end of a
 * container, because an open one keeps its network namespace alive.
 */
export class Listeners {
  readonly #docker: Docker;
  readonly #open = new Map<string, { sockets: Set<Closable>; watch: AbortController }>();

  constructor(docker: Docker) {
    this.#docker = docker;
  }

  /** Returns the listener for its owner to close. */
  add(id: string, container: string, listener: Closable): Closable {
    const own = this.#open.get(id) ?? this.#watch(id, container);
    own.sockets.add(listener);
    return {
      close: () => {
        if (own.sockets.delete(listener)) listener.close();
      },
    };
  }

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

  #watch(id: string, container: string): { sockets: Set<Closable>; watch: AbortController } {
    const own = { sockets: new Set<Closable>(), watch: new AbortController() };
    this.#open.set(id, own);
    this.#docker
      .getContainer(container)
      .wait({ condition: "not-running", abortSignal: own.watch.signal })
      .then(
        () => {
          if (this.#open.get(id) === own) this.close(id);
        },
        () => {
          // The engine is gone and the sandbox may run on; `close` is called at its next change.
        },
      );
    return own;
  }
}
