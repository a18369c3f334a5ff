import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";

/** Concurrent fetches of the machine, and for one owner. */
const maxFetches = [4, 2] as const;

/** Bounds how many images are fetched at a time. */
export class FetchTurns {
  readonly #turns = new KeyedSemaphore(maxFetches);

  /** Fetches when the machine and the owner may fetch one more. Throws the signal's reason. */
  async run<T>(
    owner: string,
    { report, signal }: { report: (text: string) => void; signal: AbortSignal },
    fetch: () => Promise<T>,
  ): Promise<T> {
    const keys = ["machine", `owner ${owner}`];
    const taken = this.#turns.tryAcquire(keys);
    if (!taken) report("waiting until other images are fetched");
    const release = taken ?? (await this.#turns.acquire(keys, signal));
    try {
      signal.throwIfAborted();
      return await fetch();
    } finally {
      release?.();
    }
  }
}
