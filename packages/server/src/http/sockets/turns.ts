/** Time after which others get their turn, ms. */
const turnMs = 5;

/** Lets those who come all at once go one after the other, and everybody else in between. */
export class Turns {
  #waiting: (() => void)[] = [];

  /** Does the work when it is its turn; gives its result, or throws what it throws. */
  run<Result>(work: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      const turn = () => {
        try {
          resolve(work());
        } catch (error) {
          reject(error as Error);
        }
      };
      if (this.#waiting.push(turn) === 1) setImmediate(() => this.#next());
    });
  }

  #next(): void {
    const until = performance.now() + turnMs;
    let done = 0;
    while (done < this.#waiting.length && performance.now() < until) this.#waiting[done++]!();
    this.#waiting = this.#waiting.slice(done);
    if (this.#waiting.length > 0) setImmediate(() => this.#next());
  }
}
