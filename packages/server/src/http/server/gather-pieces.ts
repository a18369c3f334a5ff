import type { ServerResponse } from "node:http";
import { pipeline, type Readable, Transform } from "node:stream";

/** Pieces of a body are joined until they have so many bytes. */
const joinedBytes = 16 * 1024;

/**
 * Joins the pieces of a body that arrive in one round of the event loop. A client may send each
 * byte as a piece of its own; each piece costs an object, and a system call when it is passed on.
 * When the response ends, the unread rest of the body is read and dropped.
 */
export function gatherPieces(body: Readable, response: ServerResponse): Readable {
  const gathered = pipeline(body, new Gathering(), () => {});
  response.once("finish", () => gathered.resume());
  return gathered;
}

class Gathering extends Transform {
  #pieces: Buffer[] = [];
  #bytes = 0;
  #due: NodeJS.Immediate | undefined;

  override _transform(piece: Buffer, _encoding: string, done: () => void): void {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes >= joinedBytes) this.#pass();
    else this.#due ??= setImmediate(() => this.#pass());
    done();
  }

  override _flush(done: () => void): void {
    this.#pass();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearImmediate(this.#due);
    done(error);
  }

  #pass(): void {
    clearImmediate(this.#due);
    this.#due = undefined;
    const [first] = this.#pieces;
    if (first) this.push(this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces, this.#bytes));
    this.#pieces = [];
    this.#bytes = 0;
  }
}
