import { Duplex } from "node:stream";
import type { Channel, SendFrame } from "./channel.ts";
import { answer, encodeAllowance, request } from "./protocol.ts";
import { SendWindow, socketWindowBytes } from "./windows.ts";

/** A TCP connection inside a pod that the helper holds. */
export class ResidentSocket extends Duplex implements Channel {
  readonly #send: SendFrame;
  readonly #input: SendWindow;
  readonly #onEnd: () => void;
  #held = 0;
  /** Number of bytes that the helper may still send. */
  #open = socketWindowBytes;
  #hasEnded = false;

  /** `onEnd` is called once another connection may use the channel. */
  constructor(send: SendFrame, onEnd: () => void) {
    super({ allowHalfOpen: true });
    this.#send = send;
    this.#onEnd = onEnd;
    this.#input = new SendWindow((piece) => send(request.input, piece));
    send(request.allow, encodeAllowance(0, socketWindowBytes));
  }

  /** Takes bytes from the helper. Throws when the helper sends more than it may. */
  onFrame(type: number, payload: Buffer): void {
    if (type === answer.output) {
      const bytes = Math.max(0, payload.length - 1);
      this.#open -= bytes;
      if (this.#open < 0) throw new Error("the helper sent more than it may");
      this.#held += bytes;
      // The copy frees the larger chunk to whose memory the frame belongs.
      if (this.push(Buffer.from(payload.subarray(1)))) this.#release();
    } else if (type === answer.ended) this.push(null);
    else if (type === answer.taken && payload.length === 4) this.#input.taken(payload.readUInt32BE());
  }

  onLost(): void {
    this.#hasEnded = true;
    this.destroy(Object.assign(new Error("the connection to the sandbox was lost"), { code: "ECONNRESET" }));
  }

  override _read(): void {
    this.#release();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.#hasEnded) done();
    else this.#input.write(chunk, done);
  }

  override _final(done: () => void): void {
    if (!this.#hasEnded) this.#send(request.finish);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#hasEnded) this.#send(request.close);
    this.#hasEnded = true;
    this.#input.end();
    this.#onEnd();
    done(error);
  }

  #release(): void {
    const bytes = this.#held;
    this.#held = 0;
    this.#open += bytes;
    if (bytes > 0 && !this.#hasEnded) this.#send(request.allow, encodeAllowance(0, bytes));
  }
}
