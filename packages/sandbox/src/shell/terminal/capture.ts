/** Maximum length of an output for the model, characters (agent-behaviour.md section 13). */
export const maxOutputChars = 30_000;
const half = maxOutputChars / 2;
/** Half of the space for the notice of a cut, characters. */
const noticeChars = 250;

/** Saves an output that is too long to show. */
export interface Overflow {
  write(text: string): void;
  /** Returns undefined when the copy could not be saved. */
  end(): Promise<{ path: string; complete: boolean } | undefined>;
}

export interface Captured {
  text: string;
  /** Folder of the saved copy. */
  savedIn?: string;
}

/**
 * Keeps the beginning and the end of a command's output; a long output also goes to an overflow.
 */
export class Capture {
  readonly #openOverflow: () => Overflow;
  #head = "";
  #tail = "";
  #length = 0;
  #overflow: Overflow | undefined;

  constructor(openOverflow: () => Overflow) {
    this.#openOverflow = openOverflow;
  }

  get length(): number {
    return this.#length;
  }

  add(text: string): void {
    if (!text) return;
    this.#length += text.length;
    if (this.#length > maxOutputChars && !this.#overflow) {
      this.#overflow = this.#openOverflow();
      this.#overflow.write(this.#head + this.#tail);
    }
    this.#overflow?.write(text);
    const room = half - this.#head.length;
    if (room > 0) this.#head += text.slice(0, room);
    if (text.length > room) this.#tail = (this.#tail + text.slice(Math.max(room, 0))).slice(-half);
  }

  /** At most `maxOutputChars`; in a longer output a notice replaces the middle. */
  async end(): Promise<Captured> {
    if (!this.#overflow) return { text: this.#head + this.#tail };
    const saved = await this.#overflow.end();
    const head = dropHalfCharacters(this.#head.slice(0, half - noticeChars));
    const tail = dropHalfCharacters(this.#tail.slice(-(half - noticeChars)));
    const where = saved
      ? `The ${saved.complete ? "whole" : "beginning of the"} output is in ${saved.path}; the part left out begins at line ${head.split("\n").length}.`
      : "It could not be saved in the sandbox.";
    const left = this.#length - head.length - tail.length;
    const text = `${head}\n[${left} of ${this.#length} characters are left out here. ${where}]\n${tail}`;
    return { text, ...(saved ? { savedIn: saved.path.slice(0, saved.path.lastIndexOf("/")) } : {}) };
  }
}

/** Drops halves of surrogate pairs at the edges of a cut. */
function dropHalfCharacters(text: string): string {
  return text.replace(/^[\udc00-\udfff]/, "").replace(/[\ud800-\udbff]$/, "");
}
