import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { Chunk } from "./event-json.ts";

export interface OutputLimits {
  /** Bytes that are gathered into one piece. */
  chunkBytes: number;
  /** Bytes that are kept of a command; beyond them only the end is. */
  keptBytes: number;
  /** Bytes of each stream's end that are kept where it goes beyond. */
  endBytes: number;
}

export const outputLimits: OutputLimits = {
  chunkBytes: 128 * 1024,
  keptBytes: 128 * 2 ** 20,
  endBytes: 128 * 1024,
};

/** Takes out what must not be shown of a text that comes in pieces. */
export interface ChunkMask {
  write(piece: string): string;
  /** Gives the rest. */
  end(): string;
}

type StreamName = "stdout" | "stderr";
const names = ["stdout", "stderr"] as const;

/** How much of what is not kept is read before a rest of `restMs`, bytes: a command that prints without end must not keep the server busy. */
const burstBytes = 2 ** 20;
const restMs = 40;

/**
 * Gathers what a command prints into pieces of text. Characters that come in two parts stay whole, and bytes that are none show as U+FFFD. While a
 * piece is being written the command waits, so memory is bounded.
 */
export class OutputChunker {
  readonly #limits: OutputLimits;
  readonly #write: (piece: Chunk) => Promise<void>;
  readonly #waitMs: () => number | undefined;
  readonly #streams: Readable[] = [];
  readonly #waiting: Record<StreamName, Buffer[]> = { stdout: [], stderr: [] };
  readonly #lengths: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  readonly #decoders: Record<StreamName, TextDecoder> = { stdout: newDecoder(), stderr: newDecoder() };
  readonly #masks: Record<StreamName, ChunkMask> | undefined;
  #kept = 0;
  #dropped = 0;
  #hurried = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #busy = false;
  #failed = false;

  /**
   * `waitMs` tells how long a piece may wait for more; undefined: until it is full. `write` may throw: nothing more is written then. `mask` makes a mask for
   * each stream.
   */
  constructor(
    limits: OutputLimits,
    write: (piece: Chunk) => Promise<void>,
    waitMs: () => number | undefined,
    mask?: () => ChunkMask,
  ) {
    if (mask) this.#masks = { stdout: mask(), stderr: mask() };
    this.#limits = limits;
    this.#write = write;
    this.#waitMs = waitMs;
  }

  read(name: StreamName, stream: Readable): void {
    this.#streams.push(stream);
    stream.on("data", (chunk: Buffer) => this.take(name, chunk));
    stream.on("error", () => {});
  }

  take(name: StreamName, chunk: Buffer): void {
    if (chunk.length === 0 || this.#failed) return;
    this.#waiting[name].push(chunk);
    this.#lengths[name] += chunk.length;
    if (this.#full) return this.#keepEnd(name, chunk.length);
    if (this.#size >= this.#limits.chunkBytes) {
      this.#pause();
      this.#flush();
    } else this.#flushSoon();
  }

  /** What has not been written, once everything before it has been. Throws what `write` threw. */
  async rest(): Promise<Chunk> {
    clearTimeout(this.#timer);
    await this.#writing;
    const ends =
      this.#dropped > 0 ? names.map((name) => this.#end(name)) : names.map((name) => this.#text(name, false));
    return { stdout: ends[0]!, stderr: ends[1]! };
  }

  get #size(): number {
    return this.#lengths.stdout + this.#lengths.stderr;
  }

  get #full(): boolean {
    return this.#kept >= this.#limits.keptBytes;
  }

  #flushSoon(): void {
    const wait = this.#timer === undefined && this.#size > 0 && !this.#full ? this.#waitMs() : undefined;
    if (wait !== undefined) this.#timer = setTimeout(() => this.#flush(), wait);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#busy || this.#failed) return;
    this.#busy = true;
    this.#writing = this.#writeOut();
    this.#writing
      .catch(() => {
        this.#failed = true;
      })
      .finally(() => {
        this.#busy = false;
        this.#flushSoon();
        this.#resume();
      });
  }

  async #writeOut(): Promise<void> {
    do {
      this.#kept += this.#size;
      const piece = { stdout: this.#text("stdout", true), stderr: this.#text("stderr", true) };
      if (piece.stdout !== "" || piece.stderr !== "") await this.#write(piece);
    } while (this.#size >= this.#limits.chunkBytes && !this.#full);
  }

  #text(name: StreamName, more: boolean): string {
    const bytes = Buffer.concat(this.#waiting[name]);
    this.#waiting[name] = [];
    this.#lengths[name] = 0;
    const text = this.#decoders[name].decode(bytes, { stream: more });
    const mask = this.#masks?.[name];
    return mask ? mask.write(text) + (more ? "" : mask.end()) : text;
  }

  /** Beyond what is kept: drops from the front what the end does not need, and lets the command rest now and then. */
  #keepEnd(name: StreamName, read: number): void {
    const chunks = this.#waiting[name];
    while (this.#lengths[name] - chunks[0]!.length >= this.#limits.endBytes) {
      this.#lengths[name] -= chunks[0]!.length;
      this.#dropped += chunks.shift()!.length;
    }
    this.#hurried += read;
    if (this.#hurried < burstBytes) return;
    this.#hurried = 0;
    this.#pause();
    void delay(restMs).then(() => this.#resume());
  }

  #end(name: StreamName): string {
    const text = this.#text(name, false);
    if (name === "stderr") return text;
    return `\n[${this.#dropped} bytes of the output are left out here: more than ${this.#limits.keptBytes} are not kept]\n${text}`;
  }

  #pause(): void {
    for (const stream of this.#streams) stream.pause();
  }

  #resume(): void {
    for (const stream of this.#streams) stream.resume();
  }
}

function newDecoder(): TextDecoder {
  return new TextDecoder("utf-8", { ignoreBOM: true });
}
