/** Time of all queued work in each round of the event loop, ms; the shorter one in a burst. */
const sliceMs = 5;
const burstSliceMs = 2;

/** In a burst of connections, time between two rounds that have queued work, ms. */
const burstPauseMs = 10;

/**
 * Shares the event loop between requests and background work. One instance per server: the HTTP
 * listener reports connections to it, and everything that takes turns defers to them.
 */
export class EventLoopScheduler {
  /** Rounds until no connection has arrived for one. */
  #burst = 0;
  /** Work waits in this round, so that it is short. */
  #waits = false;
  /** When the last round of a burst that did not wait ended. */
  #workedAt = Number.NEGATIVE_INFINITY;
  readonly #lanes = new Map<string, (() => void)[]>();
  readonly #queues = new Map<string, TimeSlicedQueue>();
  /** Queues that have work; the first one is next. */
  readonly #ready = new Set<TimeSlicedQueue>();
  #working = false;
  /** When the time of this round's queued work ends; undefined before its first work. */
  #sliceEnd: number | undefined;

  /**
   * Reports a new connection. A round of the event loop accepts few of them, so a burst waits for
   * many rounds: most of them have no other work.
   */
  noteConnection(): void {
    if (this.#burst === 0) setImmediate(this.#passRound);
    this.#burst = 2;
  }

  readonly #passRound = () => {
    const now = performance.now();
    if (!this.#waits) this.#workedAt = now;
    this.#waits = --this.#burst > 0 && now - this.#workedAt < burstPauseMs;
    if (this.#burst > 0) setImmediate(this.#passRound);
  };

  /**
   * Resolves when it is the caller's turn. Each lane admits one caller per round of the event loop,
   * in order, so requests are served between any two of them.
   */
  nextTurn(name: string): Promise<void> {
    const lane = this.#lanes.get(name) ?? [];
    this.#lanes.set(name, lane);
    const { promise, resolve } = Promise.withResolvers<void>();
    if (lane.push(resolve) === 1) setImmediate(() => this.#serve(lane));
    return promise;
  }

  #serve(lane: (() => void)[]): void {
    if (!this.#waits) lane.shift()?.();
    if (lane.length > 0) setImmediate(() => this.#serve(lane));
  }

  /** The queue of that name, which shares the time of each round with the others. */
  queue(name: string): TimeSlicedQueue {
    const queue = this.#queues.get(name) ?? new TimeSlicedQueue((ready) => this.#begin(ready));
    this.#queues.set(name, queue);
    return queue;
  }

  #begin(queue: TimeSlicedQueue): void {
    this.#ready.add(queue);
    if (!this.#working) void this.#work();
  }

  /** Takes one work of each queue in turn. */
  async #work(): Promise<void> {
    this.#working = true;
    while (this.#ready.size > 0) {
      // What the previous work resolved runs first and counts into the slice.
      await Promise.resolve();
      if (this.#sliceEnd !== undefined && performance.now() > this.#sliceEnd) await nextRound();
      if (this.#sliceEnd === undefined) await this.#beginSlice();
      const [queue] = this.#ready;
      this.#ready.delete(queue!);
      if (queue!.takeNext()) this.#ready.add(queue!);
    }
    this.#working = false;
  }

  async #beginSlice(): Promise<void> {
    while (this.#waits) await nextRound();
    this.#sliceEnd = performance.now() + (this.#burst > 0 ? burstSliceMs : sliceMs);
    setImmediate(() => (this.#sliceEnd = undefined));
  }
}

export type TurnScheduler = Pick<EventLoopScheduler, "nextTurn">;

/**
 * Runs work in order. All queues together work for at most some milliseconds in each round of the
 * event loop, so that hundreds of results that arrive in one round do not delay the rest of the
 * server.
 */
export class TimeSlicedQueue {
  readonly #begin: (queue: TimeSlicedQueue) => void;
  #waiting: (() => void)[] = [];
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(begin: (queue: TimeSlicedQueue) => void) {
    this.#begin = begin;
  }

  /** `work` must not throw. */
  add(work: () => void): void {
    if (this.#waiting.push(work) > 1) return;
    this.#begin(this);
  }

  /** Runs the work in its turn; gives its result, or rejects with what it throws. */
  run<Result>(work: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.add(() => {
        try {
          resolve(work());
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  /** Resolves when the queue is empty. */
  drained(): Promise<void> {
    if (this.#waiting.length === 0) return Promise.resolve();
    this.#drained ??= Promise.withResolvers();
    return this.#drained.promise;
  }

  /** Runs the oldest work; returns whether there is more. The scheduler calls it. */
  takeNext(): boolean {
    this.#waiting.shift()!();
    if (this.#waiting.length > 0) return true;
    this.#drained?.resolve();
    this.#drained = undefined;
    return false;
  }
}

function nextRound(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
