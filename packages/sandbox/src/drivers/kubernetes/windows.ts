import { OutputStream } from "../common/output-stream.ts";

/** Bytes of one stream that may be on their way or wait for their reader. */
export const windowBytes = 512 * 1024;
/** The same of one TCP connection, of which a sandbox may open many. */
export const socketWindowBytes = 128 * 1024;
/** Largest piece of a stream in one frame. */
const pieceBytes = 32 * 1024;

/** The sending side of a stream: waits until the helper has passed on what was sent before. */
export class SendWindow {
  readonly #send: (piece: Buffer) => void;
  #free = windowBytes;
  #rest: Buffer | undefined;
  #done: (() => void) | undefined;

  constructor(send: (piece: Buffer) => void) {
    this.#send = send;
  }

  /** `done` is called when all of the chunk is on its way, or will never be. */
  write(chunk: Buffer, done: () => void): void {
    this.#rest = chunk;
    this.#done = done;
    this.#flush();
  }

  taken(bytes: number): void {
    this.#free += bytes;
    this.#flush();
  }

  /** Nothing is sent any more; a waiting writer goes on. */
  end(): void {
    this.#rest = undefined;
    const done = this.#done;
    this.#done = undefined;
    done?.();
  }

  #flush(): void {
    while (this.#rest && this.#free > 0) {
      const piece = this.#rest.subarray(0, Math.min(this.#free, pieceBytes));
      this.#free -= piece.length;
      this.#rest = piece.length < this.#rest.length ? this.#rest.subarray(piece.length) : undefined;
      this.#send(piece);
    }
    if (!this.#rest) this.end();
  }
}

/** The receiving side of a stream: allows the helper as much as its reader has taken. */
export class ReceiveWindow {
  readonly output: OutputStream;
  readonly #allow: (bytes: number) => void;
  #isPaused = false;
  #held = 0;
  /** Bytes that the helper may still send. */
  #open = windowBytes;

  /** `allow` tells the helper how many more bytes it may send; it is first called here. */
  constructor(allow: (bytes: number) => void) {
    this.#allow = allow;
    this.output = new OutputStream({
      pause: () => {
        this.#isPaused = true;
      },
      resume: () => {
        this.#isPaused = false;
        this.#release();
      },
    });
    allow(windowBytes);
  }

  /** Throws when the helper sends more than it may, which would fill the server's memory. */
  take(chunk: Buffer): void {
    this.#open -= chunk.length;
    if (this.#open < 0) throw new Error("the helper sent more than it may");
    this.#held += chunk.length;
    // The frame's memory is that of a larger chunk.
    this.output.write(Buffer.from(chunk));
    if (!this.#isPaused) this.#release();
  }

  #release(): void {
    const bytes = this.#held;
    this.#held = 0;
    this.#open += bytes;
    if (bytes > 0) this.#allow(bytes);
  }
}
