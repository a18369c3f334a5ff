import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sandpiper/core/errors";

/** How long downloads are waited for, and how often one looks, ms. */
const downloadMs = 10_000;
const lookMs = 100;

/** Downloads that may go on at a time, and bytes that one may have. */
const maxAtOnce = 20;
const maxBytes = 500 * 2 ** 20;

export interface DownloadBegins {
  guid: string;
  suggestedFilename: string;
}

export interface DownloadProgress {
  guid: string;
  state: "inProgress" | "completed" | "canceled";
  receivedBytes: number;
  filePath?: string;
}

export interface DownloadsParts {
  /** Folder inside of the sandbox. */
  dir: string;
  cancel(guid: string): Promise<void>;
  /** Told to the model with the next result. */
  note(text: string): void;
}

/** The downloads of a browser, as it tells of them. */
export class Downloads {
  readonly dir: string;
  readonly #parts: DownloadsParts;
  /** Names of those that go on. */
  readonly #names = new Map<string, string>();

  constructor(parts: DownloadsParts) {
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

  /** Waits a while for those that have begun. Throws when the signal aborts. */
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
