import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { Chunk } from "./event-json.ts";

export interface OutputLimits {
  /** Bytes of one chunk. */
  chunkBytes: number;
  /** Bytes of a command's output that are kept; of the rest only the end is. */
  keptBytes: number;
  /** Bytes of each stream's end that are kept then. */
  endBytes: number;
}

export const outputLimits: OutputLimits = {
  chunkBytes: 128 * 1024,
  keptBytes: 128 * 2 ** 20,
  endBytes: 128 * 1024,
};

/** Masks secrets in a text that comes in chunks. */
export interface ChunkMask {
  write(chunk: string): string;
  /** Returns the rest. */
  end(): string;
}

type StreamName = "stdout" | "stderr";
const names = ["stdout", "stderr"] as const;

/** Dropped bytes between pauses of `restMs`: an endless output must not keep the server busy. */
const burstBytes = 2 ** 20;
const restMs = 40;

/**
 * Collects a command's output into chunks of text. Decodes characters across reads; invalid bytes
 * become U+FFFD. The command waits while a chunk is written, so memory is bounded.
 */
export class OutputChunker {
  readonly #limits: OutputLimits;
  readonly #write: (chunk: Chunk) => Promise<void>;
  readonly #waitMs: () => number | undefined;
  readonly #streams: Readable[] = [];
  readonly #waiting: Record<StreamName, Buffer[]> = { stdout: [], stderr: [] };
  readonly #lengths: Record<StreamName, number> = { stdout: 0, stderr: 0 };
  readonly #decoders: Record<StreamName, TextDecoder> = { stdout: newDecoder(), stderr: newDecoder() };
  readonly #masks: Record<StreamName, ChunkMask> | undefined;
  #kept = 0;
  #dropped = 0;
  #droppedSinceRest = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #busy = false;
  #failed = false;

  /**
   * `waitMs`: how long a chunk waits for more output; undefined: until it is full. After an error
   * of `write` nothing more is written. `mask` creates a mask for each stream.
   */
  constructor(
    limits: OutputLimits,
    write: (chunk: Chunk) => Promise<void>,
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

  /** The unwritten rest, after all earlier chunks were written. Throws what `write` threw. */
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
      const chunk = { stdout: this.#text("stdout", true), stderr: this.#text("stderr", true) };
      if (chunk.stdout !== "" || chunk.stderr !== "") await this.#write(chunk);
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

  /** Beyond the kept bytes: drops all but the end, and pauses the command now and then. */
  #keepEnd(name: StreamName, read: number): void {
    const chunks = this.#waiting[name];
    while (this.#lengths[name] - chunks[0]!.length >= this.#limits.endBytes) {
      this.#lengths[name] -= chunks[0]!.length;
      this.#dropped += chunks.shift()!.length;
    }
    this.#droppedSinceRest += read;
    if (this.#droppedSinceRest < burstBytes) return;
    this.#droppedSinceRest = 0;
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
