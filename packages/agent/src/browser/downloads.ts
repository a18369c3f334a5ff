import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sandpiper/core/errors";

/** Time to wait for downloads, and interval of the checks, ms. */
const downloadMs = 10_000;
const lookMs = 100;

/** Concurrent downloads, and bytes of one. */
const maxAtOnce = 20;
const maxBytes = 500 * 2 ** 20;

export type DownloadBegins = {
  guid: string;
  suggestedFilename: string;
};

export type DownloadProgress = {
  guid: string;
  state: "inProgress" | "completed" | "canceled";
  receivedBytes: number;
  filePath?: string;
};

export interface DownloadsDeps {
  /** Folder in the sandbox. */
  dir: string;
  cancel(guid: string): Promise<void>;
  /** Adds a note to the next result. */
  note(text: string): void;
}

/** The downloads that a browser reports. */
export class Downloads {
  readonly dir: string;
  readonly #parts: DownloadsDeps;
  /** Names of running downloads. */
  readonly #names = new Map<string, string>();

  constructor(parts: DownloadsDeps) {
    this.dir = parts.dir;
    this.#parts = parts;
  }

  begins({ guid, suggestedFilename }: DownloadBegins): void {
    if (this.#names.size >= maxAtOnce) return this.#cancel(guid);
    this.#names.set(guid, String(suggestedFilename).slice(0, 200));
  }

  goesOn({ guid, state, receivedBytes, filePath }: DownloadProgress): void {
    const name = this.#names.get(guid);
    if (name === undefined) return;
    if (state === "inProgress" && receivedBytes <= maxBytes) return;
    this.#names.delete(guid);
    if (state === "inProgress") this.#cancel(guid);
    const { note } = this.#parts;
    if (state === "completed")
      note(`Downloaded ${name} (${receivedBytes} bytes) to ${filePath ?? `${this.dir}/${name}`}`);
    else note(`The download of ${name} was broken off${state === "inProgress" ? ": it is too large" : ""}.`);
  }

  /** Waits a while for running downloads. Throws the signal's reason. */
  async done(signal: AbortSignal): Promise<void> {
    const until = performance.now() + downloadMs;
    await delay(lookMs, undefined, { signal });
    while (this.#names.size > 0 && performance.now() < until) await delay(lookMs, undefined, { signal });
    for (const name of this.#names.values()) this.#parts.note(`The download of ${name} goes on.`);
  }

  #cancel(guid: string): void {
    this.#parts.cancel(guid).catch((error) => this.#parts.note(errorText(error)));
  }
}
