import { OutputStream } from "../common/output-stream.ts";

/** Maximum number of bytes of one stream that are on their way or wait for their reader. */
export const windowBytes = 512 * 1024;
/** Maximum number of bytes of one TCP connection that are on their way or wait for their reader. */
export const socketWindowBytes = 128 * 1024;
/** Maximum size of a piece of a stream in one frame, bytes. */
const pieceBytes = 32 * 1024;

/** The sending side of a stream. It waits until the helper has passed on earlier bytes. */
export class SendWindow {
  readonly #send: (piece: Buffer) => void;
  #free = windowBytes;
  #rest: Buffer | undefined;
  #done: (() => void) | undefined;

  constructor(send: (piece: Buffer) => void) {
    this.#send = send;
  }

  /**
   * Sends a chunk. `done` is called when the whole chunk is sent, and when the stream has ended.
   */
  write(chunk: Buffer, done: () => void): void {
    this.#rest = chunk;
    this.#done = done;
    this.#flush();
  }

  taken(bytes: number): void {
    this.#free += bytes;
    this.#flush();
  }

  /** Drops the rest of the chunk, and lets a waiting writer go on. */
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

/** The receiving side of a stream. It allows the helper as many bytes as its reader has taken. */
export class ReceiveWindow {
  readonly output: OutputStream;
  readonly #allow: (bytes: number) => void;
  #isPaused = false;
  #held = 0;
  /** Number of bytes that the helper may still send. */
  #open = windowBytes;

  /** `allow` tells the helper how many more bytes it may send. The constructor calls it first. */
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

  /** Takes bytes from the helper. Throws when the helper sends more than it may. */
  take(chunk: Buffer): void {
    this.#open -= chunk.length;
    if (this.#open < 0) throw new Error("the helper sent more than it may");
    this.#held += chunk.length;
    // The copy frees the larger chunk to whose memory the frame belongs.
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
