import type { Frame } from "../../conversations/api.ts";
import type { Encode } from "./encode.ts";

/** Limits of unsent bytes per client. */
export interface OutboxLimits {
  /** Disconnects a client with more unsent bytes. */
  maxUnsentBytes: number;
  /**
   * Maximum bytes in the connection's own buffer. Above it, frames wait in a queue whose bytes are
   * shared between clients, resends wait, and deltas are dropped: their message follows as an
   * event.
   */
  maxBufferedBytes: number;
}

export const outboxLimits: OutboxLimits = { maxUnsentBytes: 8 * 1024 * 1024, maxBufferedBytes: 256 * 1024 };

/** A destination of frames: a WebSocket or a streaming response. */
export interface Sink {
  readonly open: boolean;
  /** Bytes buffered because the client has not read them. */
  readonly bufferedBytes: number;
  /**
   * Registers a full state that will be written. Returns the function to call when it is written;
   * absent where a client cannot tell that it has handled a state.
   */
  expectState?(frame: Frame): () => void;
  /** Calls `taken` when the bytes have left the process; never if the connection ends first. */
  write(bytes: Buffer, taken: () => void): void;
  /** Ends the connection of a slow client, which received the events up to this number. */
  disconnect(lastSeq: number): void;
}

interface QueuedFrame {
  bytes: Buffer;
  seq: number | undefined;
  onWritten: (() => void) | undefined;
}

/** Overhead of a queue entry, so that tiny frames count too. */
const entryOverheadBytes = 64;

/** The frames for one client, bounded, so that a slow client costs little and delays no others. */
export class Outbox {
  readonly #sink: Sink;
  readonly #encode: Encode;
  readonly #limits: OutboxLimits;
  readonly #onDisconnect: (lastSeq: number) => void;
  /** Live frames that wait for the end of the resend, or for the client. */
  #queue: QueuedFrame[] = [];
  /** Index of the queue's first entry. */
  #head = 0;
  #queuedBytes = 0;
  #resending = true;
  /** Log position up to which a resend goes. */
  readonly #resendTo: number;
  #lastSeq = 0;
  #onTaken: (() => void) | undefined;
  readonly #taken = () => {
    this.#onTaken?.();
    if (!this.#resending) this.#flush();
  };

  /**
   * `resendTo` is the end of the log when following began, or 0 without a resend: live copies of
   * events up to it are dropped. `onCutOff` gets the last number sent to a client that was too
   * slow.
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
    this.#onDisconnect = onCutOff;
    this.#limits = limits;
  }

  /** Takes a live frame, which waits until `goLive`. */
  live(frame: Frame): void {
    if (!this.#sink.open) return;
    const waits =
      this.#resending || this.#queue.length > 0 || this.#sink.bufferedBytes > this.#limits.maxBufferedBytes;
    if (waits && isDelta(frame)) return;
    let { seq } = frame;
    let bytes: Buffer | undefined;
    if (seq !== undefined && seq <= this.#resendTo) {
      if (frame.listed) return;
      // It follows events with higher numbers, so a client cannot resume from it.
      seq = undefined;
      bytes = this.#encode({ json: frame.json });
    }
    bytes ??= this.#encode(frame);
    const onWritten = frame.isFullState ? this.#sink.expectState?.(frame) : undefined;
    if (!waits) return this.#write(bytes, seq, onWritten);
    this.#queuedBytes += bytes.length + entryOverheadBytes;
    this.#queue.push({ bytes, seq, onWritten });
    if (this.#queuedBytes + this.#sink.bufferedBytes > this.#limits.maxUnsentBytes) this.#disconnect();
  }

  /** Sends a frame ahead of waiting ones. */
  sendNow(frame: Frame): void {
    if (!this.#sink.open) return;
    const onWritten = frame.isFullState ? this.#sink.expectState?.(frame) : undefined;
    this.#write(this.#encode(frame), frame.seq, onWritten);
  }

  /** Sends a stored event. Returns a promise when the client must read before it can take more. */
  resend(frame: Frame): Promise<void> | undefined {
    this.#write(this.#encode(frame), frame.seq);
    return this.#isFull ? this.#whenRead() : undefined;
  }

  get #isFull(): boolean {
    return this.#sink.open && this.#sink.bufferedBytes > this.#limits.maxBufferedBytes;
  }

  async #whenRead(): Promise<void> {
    while (this.#isFull) {
      await new Promise<void>((resolve) => {
        this.#onTaken = resolve;
      });
    }
  }

  /** Ends the resend, if any, and sends the waiting frames. */
  goLive(): void {
    this.#resending = false;
    this.#onTaken = undefined;
    this.#flush();
  }

  /** Writes waiting frames while the sink accepts them. */
  #flush(): void {
    while (
      this.#head < this.#queue.length &&
      this.#sink.open &&
      this.#sink.bufferedBytes <= this.#limits.maxBufferedBytes
    ) {
      const { bytes, seq, onWritten } = this.#queue[this.#head++]!;
      this.#queuedBytes -= bytes.length + entryOverheadBytes;
      this.#write(bytes, seq, onWritten);
    }
    if (this.#head * 2 >= this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
  }

  #write(bytes: Buffer, seq: number | undefined, onWritten?: () => void): void {
    if (seq !== undefined) this.#lastSeq = seq;
    this.#sink.write(bytes, this.#taken);
    onWritten?.();
  }

  #disconnect(): void {
    this.#queue = [];
    this.#head = 0;
    this.#queuedBytes = 0;
    this.#onDisconnect(this.#lastSeq);
    this.#sink.disconnect(this.#lastSeq);
  }
}

/** Whether a frame is a piece of an answer, whose message follows as an event. */
export function isDelta({ seq, json }: Frame): boolean {
  return seq === undefined && json.slice(0, 256).includes('"StreamingDeltaEvent"');
}
