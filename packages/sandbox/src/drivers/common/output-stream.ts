import { Readable } from "node:stream";

interface Source {
  pause(): void;
  resume(): void;
}

/**
 * What a sandbox's process wrote, as a stream that its driver ends: a pipe alone would stay open as long as any process that inherited it
 * lives. Slows the source down when the reader is slow.
 */
export class OutputStream extends Readable {
  readonly #source: Source;
  #ended = false;
  /** Counts chunks, so that quiet can be noticed. */
  chunks = 0;

  constructor(source: Source) {
    super();
    this.#source = source;
  }

  /** True while the reader has more than enough: the source is held back then. */
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
    // A reader that goes away must not stop the process on a full pipe.
    this.full = false;
    this.#source.resume();
    done(error);
  }
}
