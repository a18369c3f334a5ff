interface Place {
  /** Resolves when the holder may begin. */
  ready: Promise<void>;
  /** Gives the place up, whether it was reached or not. */
  leave(): void;
}

/** Places for so many at a time; who comes on top of them waits for their turn. */
export class Slots {
  readonly #size: number;
  readonly #queue = new Set<() => void>();
  #taken = 0;

  constructor(size: number) {
    this.#size = size;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  get empty(): boolean {
    return this.#taken === 0 && this.#queue.size === 0;
  }

  enter(): Place {
    const { promise: ready, resolve } = Promise.withResolvers<void>();
    let held = false;
    const take = () => {
      held = true;
      this.#taken += 1;
      resolve();
    };
    if (this.#taken < this.#size) take();
    else this.#queue.add(take);
    const leave = () => {
      if (this.#queue.delete(take) || !held) return;
      held = false;
      this.#taken -= 1;
      const [next] = this.#queue;
      if (!next) return;
      this.#queue.delete(next);
      next();
    };
    return { ready, leave };
  }
}
