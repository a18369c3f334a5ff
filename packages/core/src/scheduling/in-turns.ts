/** Time after which others get their turn, ms; the shorter one while connections come. */
const turnMs = 10;
const crowdedTurnMs = 2;

/** Rounds of the event loop in which work waits for newcomers, before some of it is done all the same. */
const mostGivenWay = 8;

/** Rounds until no connection has come for one. */
let crowded = 0;

/**
 * Tells that a connection has come. A round of the event loop takes one only, so that more may be waiting, each as long as all rounds before it take: work that
 * comes in turns gives way to them.
 */
export function newcomer(): void {
  if (crowded === 0) setImmediate(passRound);
  crowded = 2;
}

function passRound(): void {
  if (--crowded > 0) setImmediate(passRound);
}

function nextRound(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Gives one item after the other, made while the server goes on serving, however long all of them take together. */
export async function* inTurns<Item>(items: Iterable<Item>): AsyncGenerator<Item> {
  let turn = performance.now() + turnMs;
  for (const item of items) {
    yield item;
    if (performance.now() < turn) continue;
    await nextRound();
    turn = performance.now() + turnMs;
  }
}

/** Maps items like `Array.prototype.map`. The server goes on serving meanwhile, however long all of them take together. */
export async function mapInTurns<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
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
  #givenWay = 0;

  next(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.push(resolve) === 1) setImmediate(this.#serve);
    });
  }

  readonly #serve = () => {
    if (crowded > 0 && this.#givenWay++ < mostGivenWay) return void setImmediate(this.#serve);
    this.#givenWay = 0;
    this.#waiting.shift()?.();
    if (this.#waiting.length > 0) setImmediate(this.#serve);
  };
}

/**
 * Does work one after the other, in the order in which it came, and in each round of the event loop no more than some milliseconds of it: what comes from
 * hundreds of places in one round does not hold up the rest of the server.
 */
export class Backlog {
  readonly #waiting: (() => void)[] = [];
  #done: Promise<void> | undefined;
  /** When the time of this round is over; undefined before its first work. */
  #until: number | undefined;

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
    while (this.#waiting.length > 0) {
      // What follows from the work before has its time first, and counts.
      await Promise.resolve();
      if (this.#until !== undefined && performance.now() > this.#until) await nextRound();
      if (this.#until === undefined) {
        for (let given = 0; crowded > 0 && given < mostGivenWay; given++) await nextRound();
        this.#until = performance.now() + (crowded > 0 ? crowdedTurnMs : turnMs);
        setImmediate(() => (this.#until = undefined));
      }
      this.#waiting.shift()!();
    }
    this.#done = undefined;
  }
}
