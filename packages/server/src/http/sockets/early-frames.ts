import type { Frame } from "../../conversations/api.ts";
import { isDelta } from "./outbox.ts";

/** Overhead of a frame in memory, so that tiny frames count too, bytes. */
const frameOverheadBytes = 64;

/**
 * The live frames that arrive while the end of the log and the state are read: following begins
 * before these reads, so that no event is between what is read and what is live.
 */
export class EarlyFrames {
  readonly #maxBytes: number;
  #frames: Frame[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether more frames came than are kept: what comes is then forgotten. */
  get isOverfull(): boolean {
    return this.#bytes > this.#maxBytes;
  }

  /** Keeps a frame; deltas are dropped, because their message follows as an event. */
  add(frame: Frame): void {
    if (isDelta(frame)) return;
    this.#bytes += frame.json.length + frameOverheadBytes;
    if (this.isOverfull) this.#frames = [];
    else this.#frames.push(frame);
  }

  /**
   * Forgets what a client gets otherwise: the listed events up to a number, from the log, and
   * everything else, from the state, which is read from now on.
   */
  forgetUpTo(seq: number): void {
    this.#frames = this.#frames.filter((frame) => frame.listed === true && frame.seq! > seq);
  }

  take(): readonly Frame[] {
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }
}
