import type { Readable } from "node:stream";

const maxLineBytes = 200;

/** Reads the beginning of a stream, and leaves the rest to the next reader. */
export class HeaderReader {
  readonly #stream: Readable;
  readonly #timeoutMs: number;
  #held: Buffer = Buffer.alloc(0);
  #hasEnded = false;
  #wake: (() => void) | undefined;
  readonly #onData = (chunk: Buffer) => {
    this.#held = Buffer.concat([this.#held, chunk]);
    this.#wake?.();
  };
  readonly #onEnd = () => {
    this.#hasEnded = true;
    this.#wake?.();
  };

  constructor(stream: Readable, timeoutMs: number) {
    this.#stream = stream;
    this.#timeoutMs = timeoutMs;
    stream.on("data", this.#onData);
    stream.once("close", this.#onEnd);
    stream.on("error", () => {});
  }

  /** Reads the next line. Returns an empty text when no line comes in time. */
  async readLine(): Promise<string> {
    const limit = performance.now() + this.#timeoutMs;
    for (;;) {
      const end = this.#held.indexOf("\n");
      if (end >= 0) {
        const line = this.#held.toString("latin1", 0, end);
        this.#held = this.#held.subarray(end + 1);
        return line;
      }
      if (this.#held.length > maxLineBytes || !(await this.#more(limit))) return "";
    }
  }

  /** Drops the stream up to and with a mark. Returns false when the mark does not come in time. */
  async skipPast(mark: Buffer, timeoutMs: number): Promise<boolean> {
    const limit = performance.now() + timeoutMs;
    for (;;) {
      const at = this.#held.indexOf(mark);
      if (at >= 0) {
        this.#held = this.#held.subarray(at + mark.length);
        return true;
      }
      if (await this.#more(limit)) continue;
      this.#held = Buffer.alloc(0);
      return false;
    }
  }

  /** Ends the reading. The stream is paused, and gives the unread bytes to its next reader. */
  release(): void {
    this.#stream.pause();
    this.#stream.removeListener("data", this.#onData);
    this.#stream.removeListener("close", this.#onEnd);
    if (this.#held.length > 0) this.#stream.unshift(this.#held);
  }

  /** Waits for more bytes until the time `limit`, ms. Returns false when none come. */
  async #more(limit: number): Promise<boolean> {
    if (this.#hasEnded) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, Math.max(0, limit - performance.now()), false);
    this.#wake = () => resolve(true);
    const more = await promise;
    clearTimeout(timer);
    this.#wake = undefined;
    return more;
  }
}
