/** Time after which a queue lets other work run, ms; the shorter one while connections arrive. */
const defaultSliceMs = 10;
const burstSliceMs = 2;

/** Rounds of the event loop that background work waits for new connections before it goes on. */
const maxDeferrals = 8;

interface Lane {
  waiting: (() => void)[];
  deferrals: number;
}

export interface QueueOptions {
  sliceMs?: number;
  /** Wait while connections arrive. Default: true. */
  defersToConnections?: boolean;
}

/**
 * Shares the event loop between requests and background work. One instance per server: the HTTP
 * listener reports connections to it, and everything that takes turns defers to them.
 */
export class EventLoopScheduler {
  /** Rounds until no connection has arrived for one. */
  #burst = 0;
  readonly #lanes = new Map<string, Lane>();
  readonly #queues = new Map<string, TimeSlicedQueue>();

  get connectionBurst(): boolean {
    return this.#burst > 0;
  }

  /**
   * Reports a new connection. The event loop accepts one connection per iteration, so a burst waits
   * for as many iterations; background work backs off.
   */
  noteConnection(): void {
    if (this.#burst === 0) setImmediate(this.#passRound);
    this.#burst = 2;
  }

  readonly #passRound = () => {
    if (--this.#burst > 0) setImmediate(this.#passRound);
  };

  /**
   * Resolves when it is the caller's turn. Each lane admits one caller per round of the event loop,
   * in order, so requests are served between any two of them.
   */
  nextTurn(lane: string): Promise<void> {
    const turns = this.#lanes.get(lane) ?? { waiting: [], deferrals: 0 };
    this.#lanes.set(lane, turns);
    const { promise, resolve } = Promise.withResolvers<void>();
    if (turns.waiting.push(resolve) === 1) setImmediate(() => this.#serve(turns));
    return promise;
  }

  #serve(lane: Lane): void {
    const defers = this.connectionBurst && lane.deferrals++ < maxDeferrals;
    if (!defers) {
      lane.deferrals = 0;
      lane.waiting.shift()?.();
    }
    if (lane.waiting.length > 0) setImmediate(() => this.#serve(lane));
  }

  /** The queue of that name; the options of the first call apply. */
  queue(name: string, options: QueueOptions = {}): TimeSlicedQueue {
    const queue = this.#queues.get(name) ?? new TimeSlicedQueue(this, options);
    this.#queues.set(name, queue);
    return queue;
  }
}

export type TurnScheduler = Pick<EventLoopScheduler, "nextTurn">;

/**
 * Runs work in order, for at most some milliseconds in each round of the event loop, so that
 * hundreds of results that arrive in one round do not delay the rest of the server.
 */
export class TimeSlicedQueue {
  readonly #scheduler: EventLoopScheduler;
  readonly #sliceMs: number;
  readonly #defers: boolean;
  readonly #waiting: (() => void)[] = [];
  #drained: Promise<void> | undefined;
  /** When the slice of this round ends; undefined before its first work. */
  #sliceEnd: number | undefined;

  constructor(
    scheduler: EventLoopScheduler,
    { sliceMs = defaultSliceMs, defersToConnections = true }: QueueOptions,
  ) {
    this.#scheduler = scheduler;
    this.#sliceMs = sliceMs;
    this.#defers = defersToConnections;
  }

  /** `work` must not throw. */
  add(work: () => void): void {
    this.#waiting.push(work);
    this.#drained ??= this.#work();
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
    return this.#drained ?? Promise.resolve();
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      // What the previous work resolved runs first and counts into the slice.
      await Promise.resolve();
      if (this.#sliceEnd !== undefined && performance.now() > this.#sliceEnd) await nextRound();
      if (this.#sliceEnd === undefined) await this.#beginSlice();
      this.#waiting.shift()!();
    }
    this.#drained = undefined;
  }

  async #beginSlice(): Promise<void> {
    const isBurst = () => this.#defers && this.#scheduler.connectionBurst;
    for (let deferrals = 0; isBurst() && deferrals < maxDeferrals; deferrals++) await nextRound();
    this.#sliceEnd = performance.now() + (isBurst() ? burstSliceMs : this.#sliceMs);
    setImmediate(() => (this.#sliceEnd = undefined));
  }
}

function nextRound(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
