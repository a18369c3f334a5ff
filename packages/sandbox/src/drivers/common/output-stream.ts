import { Readable } from "node:stream";

interface Source {
  pause(): void;
  resume(): void;
}

/**
 * Output of a sandboxed process as a stream that its driver ends. A pipe alone would stay open
 * until every process that inherited it has ended. A slow reader slows the source down.
 */
export class OutputStream extends Readable {
  readonly #source: Source;
  #ended = false;
  /** Number of chunks so far, to detect silence. */
  chunks = 0;

  constructor(source: Source) {
    super();
    this.#source = source;
  }

  /** True while the reader's buffer is full and the source is paused. */
  full = false;

  write(chunk: Buffer): void {
    if (this.#ended || this.destroyed) return;
    this.chunks++;
    this.full = !this.push(chunk);
    if (this.full) this.#source.pause();
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.push(null);
  }

  override _read(): void {
    this.full = false;
    this.#source.resume();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // A reader that goes away must not block the process on a full pipe.
    this.full = false;
    this.#source.resume();
    done(error);
  }
}
