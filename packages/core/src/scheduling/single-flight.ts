export interface WorkOptions {
  onProgress?: ((text: string) => void) | undefined;
  /** Ends this caller's waiting; the work itself ends when its last caller has left. */
  signal?: AbortSignal | undefined;
}

interface Job<T> {
  result: Promise<T>;
  listeners: Set<(text: string) => void>;
  /** The newest line, for callers that join later. */
  line: string | undefined;
  waiting: number;
  abort: AbortController;
}

/**
 * Runs work of one name once for all its callers: all get its result or failure, and its progress.
 */
export class SingleFlight<T> {
  readonly #jobs = new Map<string, Job<T>>();
  /** All work that has not ended, abandoned work included. */
  readonly #running = new Set<Job<T>>();

  get busy(): boolean {
    return this.#running.size > 0;
  }

  /** Aborts all work; its callers get `reason`. Resolves when it has ended. */
  async end(reason: Error): Promise<void> {
    const jobs = [...this.#running];
    for (const job of jobs) job.abort.abort(reason);
    await Promise.allSettled(jobs.map((job) => job.result));
  }

  /**
   * Joins the work of that name, or starts it. Rejects with the signal's reason when this caller
   * gives up.
   */
  async run(
    name: string,
    { onProgress, signal }: WorkOptions,
    work: (report: (text: string) => void, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    const job = this.#jobs.get(name) ?? this.#begin(name, work);
    const listener = (text: string) => onProgress?.(text);
    const { promise: gaveUp, reject } = Promise.withResolvers<never>();
    const giveUp = () => reject(signal?.reason);
    signal?.addEventListener("abort", giveUp);
    job.listeners.add(listener);
    job.waiting++;
    if (job.line !== undefined) listener(job.line);
    try {
      return await Promise.race([job.result, gaveUp]);
    } finally {
      signal?.removeEventListener("abort", giveUp);
      job.listeners.delete(listener);
      if (--job.waiting === 0) {
        // A later caller starts anew instead of joining work that is being aborted.
        if (this.#jobs.get(name) === job) this.#jobs.delete(name);
        job.abort.abort(new Error("no caller waits for this work"));
      }
    }
  }

  #begin(name: string, work: (report: (text: string) => void, signal: AbortSignal) => Promise<T>): Job<T> {
    const abort = new AbortController();
    const { promise: result, resolve } = Promise.withResolvers<T>();
    const job: Job<T> = {
      result,
      listeners: new Set(),
      line: undefined,
      waiting: 0,
      abort,
    };
    const report = (text: string) => {
      if (text === job.line) return;
      job.line = text;
      for (const listener of job.listeners) listener(text);
    };
    this.#jobs.set(name, job);
    this.#running.add(job);
    const done = work(report, abort.signal).finally(() => {
      this.#running.delete(job);
      if (this.#jobs.get(name) === job) this.#jobs.delete(name);
    });
    resolve(done);
    result.catch(() => {});
    return job;
  }
}
