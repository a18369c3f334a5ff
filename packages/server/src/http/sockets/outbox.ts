import type { WebSocket } from "ws";
import type { Frame } from "../../conversations/api.ts";
import { serverErrorFrame } from "./frames.ts";
import { fitFrame } from "./shorten.ts";

/** Bounds of what may wait for one slow client, bytes. */
export interface OutboxLimits {
  /** A client with more than this waiting is cut off. */
  cutOff: number;
  /** Above this, deltas are dropped: the message that they build up to comes as an event. Resends wait. */
  high: number;
}

export const outboxLimits: OutboxLimits = { cutOff: 8 * 1024 * 1024, high: 256 * 1024 };

/** The frames on their way to one socket: bounded, so that a slow client costs little and slows nobody else. */
export class Outbox {
  readonly #socket: WebSocket;
  readonly #limits: OutboxLimits;
  readonly #onCutOff: (lastSeq: number) => void;
  /** Live frames that wait for the end of the resend. */
  #held: Frame[] | undefined = [];
  #heldBytes = 0;
  /** Log position up to which the resend goes: live copies of these events are dropped. */
  #resentTo = 0;
  #lastSeq = 0;

  /** `onCutOff` is told the last sequence number that a too slow client was sent. */
  constructor(socket: WebSocket, limits: OutboxLimits, onCutOff: (lastSeq: number) => void) {
    this.#socket = socket;
    this.#onCutOff = onCutOff;
    this.#limits = limits;
  }

  /** Takes a live frame. Until `goLive` it is held back. */
  live(frame: Frame): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (this.#held) {
      if (isDelta(frame)) return;
      this.#held.push(frame);
      this.#heldBytes += frame.json.length;
      if (this.#heldBytes > this.#limits.cutOff) this.#cutOff();
      return;
    }
    if (frame.listed && frame.seq !== undefined && frame.seq <= this.#resentTo) return;
    const waiting = this.#socket.bufferedAmount;
    if (waiting > this.#limits.high && isDelta(frame)) return;
    if (waiting > this.#limits.cutOff) return this.#cutOff();
    this.#write(frame);
  }

  /** Sends at once, ahead of held frames. */
  now(json: string): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#write({ json });
  }

  /** Sends a stored event of the resend; resolves when the client has taken enough to go on. */
  async resend(seq: number, json: string): Promise<void> {
    const written = this.#write({ seq, json });
    if (this.#socket.bufferedAmount > this.#limits.high) await written();
  }

  /** Ends the resend: what was held back follows, without the events up to `resentTo`, and then every frame as it comes. */
  goLive(resentTo: number): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    this.#resentTo = resentTo;
    for (const frame of held) this.live(frame);
  }

  /** Writes; gives a function whose promise resolves when the frame left the process, or never will. */
  #write({ json, seq }: Frame): () => Promise<void> {
    const fitting = fitFrame(json) ?? serverErrorFrame("FrameTooLarge", "An event is too large for a socket; read it over REST");
    let settle: (() => void) | undefined;
    let done = false;
    this.#socket.send(fitting, () => {
      done = true;
      settle?.();
    });
    if (seq !== undefined) this.#lastSeq = seq;
    return () =>
      new Promise((resolve) => {
        if (done) resolve();
        else settle = resolve;
      });
  }

  #cutOff(): void {
    this.#onCutOff(this.#lastSeq);
    this.#held = [];
    this.#heldBytes = 0;
    this.#socket.close(1013, `Too slow: reconnect with after_seq=${this.#lastSeq}`);
  }
}

function isDelta({ seq, json }: Frame): boolean {
  return seq === undefined && json.slice(0, 256).includes('"StreamingDeltaEvent"');
}
