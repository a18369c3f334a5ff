/** Time after which others get their turn, ms. */
const turnMs = 10;

/** Gives one item after the other, made while the server goes on serving, however long all of them take together. */
export async function* inTurns<Item>(items: Iterable<Item>): AsyncGenerator<Item> {
  let turn = performance.now() + turnMs;
  for (const item of items) {
    yield item;
    if (performance.now() < turn) continue;
    await new Promise((resolve) => setImmediate(resolve));
    turn = performance.now() + turnMs;
  }
}

/** Maps items like `Array.prototype.map`. The server goes on serving meanwhile, however long all of them take together. */
export async function mapInTurns<Item, Result>(items: readonly Item[], map: (item: Item) => Result): Promise<Result[]> {
  const results: Result[] = [];
  for await (const item of inTurns(items)) results.push(map(item));
  return results;
}

/**
 * Gives those who ask one round of the event loop each, in the order in which they came, so that what each does at once never adds up: requests are
 * served between any two of them.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];

  next(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.push(resolve) === 1) setImmediate(this.#serve);
    });
  }

  readonly #serve = () => {
    this.#waiting.shift()?.();
    if (this.#waiting.length > 0) setImmediate(this.#serve);
  };
}

/** Does work that comes in bursts one after the other, in the order in which it came, while the server goes on serving. */
export class Backlog {
  readonly #waiting: (() => void)[] = [];
  #done: Promise<void> | undefined;

  /** `work` must not throw. */
  add(work: () => void): void {
    this.#waiting.push(work);
    this.#done ??= this.#work();
  }

  /** Resolves when all is done that was given. */
  done(): Promise<void> {
    return this.#done ?? Promise.resolve();
  }

  async #work(): Promise<void> {
    // More may come in the moment in which the rest is done.
    while (this.#waiting.length > 0) for await (const work of inTurns(this.#rest())) work();
    this.#done = undefined;
  }

  *#rest(): Generator<() => void> {
    for (let work = this.#waiting.shift(); work; work = this.#waiting.shift()) yield work;
  }
}
