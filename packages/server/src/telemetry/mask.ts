/** What stands in the place of a secret. */
export const maskText = "**********";

/** Shorter values are too common in ordinary text to be replaced everywhere. */
const minLength = 6;

/** Knows the secrets of a process and takes them out of text: the one place that masks. */
export class SecretMask {
  readonly #values = new Set<string>();
  #longest = 0;

  /** From now on the value is masked, also as JSON and URLs would write it. Values under 6 characters are ignored. */
  registerSecret(value: string): void {
    if (value.length < minLength || this.#values.has(value)) return;
    for (const form of [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())]) {
      this.#values.add(form);
      this.#longest = Math.max(this.#longest, form.length);
    }
  }

  /** The text with every secret replaced; secrets that overlap or touch become one mask. */
  mask(text: string): string {
    let masked = "";
    let done = 0;
    for (const [from, to] of this.#ranges(text)) {
      masked += text.slice(done, from) + maskText;
      done = to;
    }
    return masked + text.slice(done);
  }

  /**
   * Masks a text that arrives in pieces: a secret cut in two is found. `write` gives what is safe to show now and holds back
   * what might be the beginning of a secret; `end` gives the rest.
   */
  stream(): { write(piece: string): string; end(): string } {
    let held = "";
    return {
      write: (piece) => {
        held += piece;
        const cut = this.#safeLength(held);
        const shown = this.mask(held.slice(0, cut));
        held = held.slice(cut);
        return shown;
      },
      end: () => {
        const shown = this.mask(held);
        held = "";
        return shown;
      },
    };
  }

  /** Places of secrets in order, merged where they overlap or touch. */
  #ranges(text: string): [number, number][] {
    const found: [number, number][] = [];
    for (const value of this.#values) {
      for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) found.push([at, at + value.length]);
    }
    const merged: [number, number][] = [];
    for (const range of found.sort((a, b) => a[0] - b[0])) {
      const last = merged.at(-1);
      if (last && range[0] <= last[1]) last[1] = Math.max(last[1], range[1]);
      else merged.push(range);
    }
    return merged;
  }

  /** Length of the part of a text that later text cannot make part of a secret. */
  #safeLength(text: string): number {
    let cut = text.length;
    for (let from = Math.max(0, text.length - this.#longest + 1); from < text.length; from++) {
      const tail = text.slice(from);
      if ([...this.#values].some((value) => value.length > tail.length && value.startsWith(tail))) {
        cut = from;
        break;
      }
    }
    // What is held back must not split a secret that is already complete.
    for (const [from, to] of this.#ranges(text)) if (from < cut && cut < to) cut = from;
    return cut;
  }
}
