import { type Duplex, Transform, type TransformCallback } from "node:stream";
import { movedClose } from "../sockets/moved.ts";

/** How long a client may take to close its socket when this node or the owner ends, ms. */
const closeMs = { leaving: 1_000, ended: 30_000 };

const closeOpcode = 8;
const [code, reason] = movedClose;
const closeFrame = Buffer.concat([
  Buffer.from([0x80 | closeOpcode, 2 + reason.length, code >> 8, code & 0xff]),
  Buffer.from(reason),
]);

/**
 * Joins the upgraded connections of a client and of the node that owns its sandbox. When the
 * owner's connection ends without a close frame, the client gets one that tells it to connect
 * again.
 * `onDone` is called once the owner's connection has ended. Returns a function that ends both
 * connections in this way, because this node closes.
 */
export function joinSockets({
  client,
  owner,
  first,
  onDone,
}: {
  client: Duplex;
  owner: Duplex;
  /** What the owner has sent right after its answer. */
  first: Buffer;
  onDone: () => void;
}): () => void {
  const frames = new ServerFrames();
  const cut = () => {
    client.destroy();
    owner.destroy();
  };
  frames.once("error", cut);
  client.once("error", cut).once("close", cut);
  owner.once("error", () => {});
  if (first.length > 0) frames.write(first);
  client.pipe(owner).pipe(frames).pipe(client);
  owner.once("close", () => {
    frames.end();
    // The rest of what the client sends has no reader.
    client.resume();
    setTimeout(cut, closeMs.ended).unref();
    onDone();
  });
  if (client.destroyed || owner.destroyed) cut();
  return () => {
    frames.leave(() => owner.destroy());
    setTimeout(cut, closeMs.leaving).unref();
  };
}

/** Passes on the frames of a server, and adds a close frame when they end without one. */
class ServerFrames extends Transform {
  /** The bytes of a header that is not complete yet. */
  #header: number[] = [];
  /** Bytes of the current frame's payload that have not come yet. */
  #left = 0;
  /** Who has closed the socket; undefined: nobody yet. */
  #closedBy: "owner" | "us" | undefined;
  #onLeft: (() => void) | undefined;

  /** Adds a close frame after the current frame, passes nothing on after it, and calls back. */
  leave(onLeft: () => void): void {
    this.#onLeft = onLeft;
    if (this.#isBetweenFrames) this.#close();
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#closedBy === "us") return done();
    let at = 0;
    while (at < chunk.length && !this.#closedBy) {
      if (this.#left > 0) {
        const passed = Math.min(this.#left, chunk.length - at);
        this.#left -= passed;
        at += passed;
      } else this.#readHeader(chunk[at++]!);
      if (this.#onLeft && this.#isBetweenFrames) {
        this.push(chunk.subarray(0, at));
        this.#close();
        return done();
      }
    }
    done(null, chunk);
  }

  override _flush(done: TransformCallback): void {
    if (this.#closedBy) return done();
    if (!this.#isBetweenFrames) return done(new Error("the connection ended within a frame"));
    this.#close();
    done();
  }

  get #isBetweenFrames(): boolean {
    return this.#left === 0 && this.#header.length === 0;
  }

  #close(): void {
    if (!this.#closedBy) {
      this.push(closeFrame);
      this.#closedBy = "us";
    }
    this.#onLeft?.();
  }

  #readHeader(byte: number): void {
    const header = this.#header;
    header.push(byte);
    const [first = 0, second = 0] = header;
    const short = second & 0x7f;
    const extended = short === 127 ? 8 : short === 126 ? 2 : 0;
    const mask = second & 0x80 ? 4 : 0;
    if (header.length < 2 + extended + mask) return;
    const long = header.slice(2, 2 + extended).reduce((sum, one) => sum * 256 + one, 0);
    this.#left = extended > 0 ? long : short;
    this.#header = [];
    if ((first & 0x0f) === closeOpcode) this.#closedBy = "owner";
  }
}
