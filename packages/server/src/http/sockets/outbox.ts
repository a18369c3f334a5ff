import type { Frame } from "../../conversations/api.ts";
import type { Encode } from "./encode.ts";

/** Bounds of what may wait for one slow client, bytes. */
export interface OutboxLimits {
  /** A client with more than this waiting is cut off. */
  cutOff: number;
  /** What its connection may hold of that. Above it, frames wait in a queue that clients of one conversation share, and deltas are dropped: the message that they build up to comes as an event. Resends wait too. */
  high: number;
}

export const outboxLimits: OutboxLimits = { cutOff: 8 * 1024 * 1024, high: 256 * 1024 };

/** Where the frames go: a WebSocket, or the answer of a request. */
export interface Sink {
  readonly open: boolean;
  /** Bytes that it holds because the client has not taken them. */
  readonly waiting: number;
  /** `taken` is called once the bytes have left the process; never where the connection ends before. */
  write(bytes: Buffer, taken: () => void): void;
  /** Ends the connection of a client that was too slow, after the event with this number. */
  cutOff(lastSeq: number): void;
}

interface Waiting {
  bytes: Buffer;
  seq: number | undefined;
}

/** What a place in the queue counts beside its bytes, or there would be very many tiny frames. */
const placeBytes = 64;

/** The frames on their way to one client: bounded, so that a slow one costs little and slows nobody else. */
export class Outbox {
  readonly #sink: Sink;
  readonly #encode: Encode;
  readonly #limits: OutboxLimits;
  readonly #onCutOff: (lastSeq: number) => void;
  /** Live frames that wait for the end of the resend, or for the client. */
  #queue: Waiting[] = [];
  /** Where the queue begins. */
  #head = 0;
  #queuedBytes = 0;
  #resending = true;
  /** Log position up to which a resend goes. */
  readonly #resendTo: number;
  #lastSeq = 0;
  #onTaken: (() => void) | undefined;
  readonly #taken = () => {
    this.#onTaken?.();
    if (!this.#resending) this.#pump();
  };

  /**
   * `resendTo` is the end of the log when following began, 0 where nothing is resent: live copies of the events up to there are dropped.
   * `onCutOff` is told the last sequence number that a too slow client was sent.
   */
  constructor(
    sink: Sink,
    encode: Encode,
    resendTo: number,
    limits: OutboxLimits,
    onCutOff: (lastSeq: number) => void,
  ) {
    this.#sink = sink;
    this.#encode = encode;
    this.#resendTo = resendTo;
    this.#onCutOff = onCutOff;
    this.#limits = limits;
  }

  /** Takes a live frame. Until `goLive` it is held back. */
  live(frame: Frame): void {
    if (!this.#sink.open) return;
    const waits = this.#resending || this.#queue.length > 0 || this.#sink.waiting > this.#limits.high;
    if (waits && isDelta(frame)) return;
    let { seq } = frame;
    let bytes: Buffer | undefined;
    if (seq !== undefined && seq <= this.#resendTo) {
      if (frame.listed) return;
      // It comes behind events with higher numbers, so it has none that a client could go on from.
      seq = undefined;
      bytes = this.#encode({ json: frame.json });
    }
    bytes ??= this.#encode(frame);
    if (!waits) return this.#write(bytes, seq);
    this.#queuedBytes += bytes.length + placeBytes;
    this.#queue.push({ bytes, seq });
    if (this.#queuedBytes + this.#sink.waiting > this.#limits.cutOff) this.#cutOff();
  }

  /** Sends at once, ahead of frames that wait. */
  now(frame: Frame): void {
    if (this.#sink.open) this.#write(this.#encode(frame), frame.seq);
  }

  /** Sends a stored event of the resend; resolves when the client has taken enough to go on. */
  async resend(seq: number, json: string): Promise<void> {
    this.#write(this.#encode({ json, seq, listed: true }), seq);
    while (this.#sink.open && this.#sink.waiting > this.#limits.high) {
      await new Promise<void>((resolve) => {
        this.#onTaken = resolve;
      });
    }
  }

  /** Ends the resend, or begins without one: what was held back follows, and then every frame as it comes. */
  goLive(): void {
    this.#resending = false;
    this.#onTaken = undefined;
    this.#pump();
  }

  /** Gives the sink what waits, as far as it takes it. */
  #pump(): void {
    while (this.#head < this.#queue.length && this.#sink.open && this.#sink.waiting <= this.#limits.high) {
      const { bytes, seq } = this.#queue[this.#head++]!;
      this.#queuedBytes -= bytes.length + placeBytes;
      this.#write(bytes, seq);
    }
    if (this.#head * 2 >= this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
  }

  #write(bytes: Buffer, seq: number | undefined): void {
    if (seq !== undefined) this.#lastSeq = seq;
    this.#sink.write(bytes, this.#taken);
  }

  #cutOff(): void {
    this.#queue = [];
    this.#head = 0;
    this.#queuedBytes = 0;
    this.#onCutOff(this.#lastSeq);
    this.#sink.cutOff(this.#lastSeq);
  }
}

function isDelta({ seq, json }: Frame): boolean {
  return seq === undefined && json.slice(0, 256).includes('"StreamingDeltaEvent"');
}
