import { constants } from "node:fs";
import { open, readFile, rename, rm } from "node:fs/promises";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Decision } from "../api.ts";

/** A file is rotated to `.old` at this size, bytes. */
const maxFileBytes = 2 ** 20;
/** Limit of unwritten decisions; further ones are dropped and leave a gap in `seq`. */
const maxWaiting = 2_000;
const delayMs = 100;

/** Decisions as JSON lines in `<file>` and `<file>.old`. `add` never waits for the disk. */
export class DecisionLog {
  readonly #file: string;
  readonly #logger: Logger;
  #waiting: string[] = [];
  #size = 0;
  /** A crash cut off the last line. */
  #torn = false;
  #seq = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Serialises file access. */
  #work: Promise<unknown>;
  #removed = false;

  constructor(file: string, logger: Logger) {
    this.#file = file;
    this.#logger = logger;
    this.#work = this.#load();
  }

  /** Resolves when the last `seq` is known. */
  async ready(): Promise<void> {
    await this.#work;
  }

  add(decision: Omit<Decision, "seq">): void {
    this.#seq++;
    if (this.#removed || this.#waiting.length >= maxWaiting) return;
    this.#waiting.push(`${JSON.stringify({ seq: this.#seq, ...decision })}\n`);
    this.#timer ??= setTimeout(() => void this.flush(), delayMs).unref();
  }

  /** Writes waiting decisions; drops them when the disk is full. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return this.#queue(async () => {
      const lines = this.#waiting.splice(0);
      if (lines.length === 0 || this.#removed) return;
      if (this.#torn) lines.unshift("\n");
      try {
        await this.#append(lines.join(""));
        this.#torn = false;
      } catch (error) {
        this.#logger.warn(
          { file: this.#file, lost: lines.length, error: errorText(error) },
          "network decisions could not be written",
        );
      }
    });
  }

  /** Newest first. */
  async read({
    limit,
    before = Number.POSITIVE_INFINITY,
  }: {
    limit: number;
    before?: number | undefined;
  }): Promise<Decision[]> {
    await this.flush();
    return this.#queue(async () => {
      const found: Decision[] = [];
      for (const file of [this.#file, `${this.#file}.old`]) {
        for (const line of (await readText(file)).split("\n").reverse()) {
          const decision = parse(line);
          if (decision && decision.seq < before) found.push(decision);
          if (found.length === limit) return found;
        }
      }
      return found;
    });
  }

  async remove(): Promise<void> {
    this.#removed = true;
    clearTimeout(this.#timer);
    await this.#queue(() =>
      Promise.all([this.#file, `${this.#file}.old`].map((file) => rm(file, { force: true }))),
    );
  }

  async #load(): Promise<void> {
    const text = await readText(this.#file);
    this.#size = Buffer.byteLength(text);
    this.#torn = text !== "" && !text.endsWith("\n");
    const last = [
      ...text.split("\n"),
      ...(text ? [] : (await readText(`${this.#file}.old`)).split("\n")),
    ].findLast(parse);
    this.#seq += last ? parse(last)!.seq : 0;
  }

  async #append(text: string): Promise<void> {
    if (this.#size > 0 && this.#size + text.length > maxFileBytes) {
      await rename(this.#file, `${this.#file}.old`);
      this.#size = 0;
    }
    const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants;
    const file = await open(this.#file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
    try {
      await file.write(text);
      this.#size += Buffer.byteLength(text);
    } finally {
      await file.close();
    }
  }

  #queue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(work);
    this.#work = result.catch(() => {});
    return result;
  }
}

async function readText(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
}

/** Undefined for a line that a crash cut off. */
function parse(line: string): Decision | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    return JSON.parse(line) as Decision;
  } catch {
    return undefined;
  }
}
