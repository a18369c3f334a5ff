import { inertLine } from "../inert.ts";

/** A part of what a terminal sends: keys of a person, or a text that was pasted. */
export interface TerminalInput {
  kind: "keys" | "paste";
  text: string;
}

const begin = "\x1b[200~";
const end = "\x1b[201~";

/** Characters of a pasted text; the rest is left out. */
const maxPaste = 1_048_576;

/** Keys that a person pressed after a paste arrive with it only in a short piece. */
const shortPiece = 512;

const lineEnds = /\r\n|[\r\v\f\u0085\u2028\u2029]/g;

/** Characters that act on a terminal or on the line editor, or that change the order of others. */
const acting = /[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Separates pasted text (bracketed paste) from keys, so that nothing in it acts as a key: it never
 * submits, interrupts or edits. Some terminals leave the end of a paste in the pasted text, so what
 * follows an end in the same piece is pasted, too, except for one Enter after a short paste. A
 * piece of one Ctrl-C ends a paste that has no end. Takes linear time.
 */
export class PasteReader {
  /** The beginning of a mark, at the end of the last piece. */
  #held = "";
  /** The paste so far; undefined outside of one. */
  #pasted: string[] | undefined;
  #size = 0;

  /** Takes a piece of input. */
  take(piece: string): TerminalInput[] {
    if (this.#pasted && piece === "\x03") {
      this.#pasted = undefined;
      this.#held = "";
      return [{ kind: "keys", text: piece }];
    }
    const text = this.#held + piece;
    this.#held = "";
    const found: TerminalInput[] = [];
    let rest = text;
    let began = false;
    if (!this.#pasted) {
      const at = text.indexOf(begin);
      const keys = at < 0 ? this.#hold(text, begin, 2) : text.slice(0, at);
      if (keys) found.push({ kind: "keys", text: keys });
      if (at < 0) return found;
      began = true;
      this.#pasted = [];
      this.#size = 0;
      rest = text.slice(at + begin.length);
    }
    const at = rest.indexOf(end);
    if (at < 0) {
      this.#add(this.#hold(rest, end, 1));
      return found;
    }
    this.#add(rest.slice(0, at));
    const after = rest.slice(at + end.length);
    const isEnter = after === "\r" && began && text.length < shortPiece;
    if (!isEnter) this.#add(after);
    found.push({ kind: "paste", text: toInert(this.#pasted.join("")) });
    this.#pasted = undefined;
    if (isEnter) found.push({ kind: "keys", text: after });
    return found;
  }

  #add(text: string): void {
    const room = maxPaste - this.#size;
    if (room <= 0 || text === "") return;
    this.#pasted!.push(text.slice(0, room));
    this.#size += Math.min(text.length, room);
  }

  /** Keeps back the beginning of a mark, of at least `least` characters. */
  #hold(text: string, mark: string, least: number): string {
    for (let size = mark.length - 1; size >= least; size--)
      if (text.endsWith(mark.slice(0, size))) {
        this.#held = text.slice(-size);
        return text.slice(0, -size);
      }
    return text;
  }
}

function toInert(text: string): string {
  return text
    .replaceAll(begin, "")
    .replaceAll(end, "")
    .replace(lineEnds, "\n")
    .replace(acting, (character) => inertLine(character));
}
