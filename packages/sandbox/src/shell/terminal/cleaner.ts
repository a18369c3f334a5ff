import { trimTail } from "@sandpiper/core/trim";

/** Maximum length of a line that awaits carriage returns and backspaces, characters. */
const maxLineChars = 65_536;

/**
 * Converts terminal output to plain text: decodes UTF-8 across chunks, removes escape sequences and
 * control characters, turns CR LF into LF, and applies carriage returns and backspaces.
 */
export class TerminalCleaner {
  readonly #decoder = new TextDecoder();
  /** An incomplete escape sequence. */
  #escape = "";
  /** The incomplete line. */
  #line = "";

  /** Returns the lines that are complete now. */
  push(chunk: Uint8Array): string {
    return this.#take(this.#decoder.decode(chunk, { stream: true }));
  }

  /** Returns the incomplete line. */
  flush(): string {
    const line = toPlainLines(this.#line);
    this.#line = "";
    return line;
  }

  #take(decoded: string): string {
    let text = this.#escape + decoded;
    this.#escape = "";
    if (text.includes("\x1b")) {
      text = text.replace(sequences, "");
      const open = openSequence.exec(text);
      if (open) {
        this.#escape = open[0];
        text = text.slice(0, open.index);
      }
      text = text.replace(/\x1b[\]PX^_]?/g, "");
    }
    text = this.#line + text;
    const end = text.lastIndexOf("\n") + 1;
    const cut = text.length - end > maxLineChars ? text.length : end;
    this.#line = text.slice(cut);
    return toPlainLines(text.slice(0, cut));
  }
}

/** CSI; OSC, DCS, SOS, PM, APC with text; two-character and charset sequences. */
const sequences =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-OQ-WYZ`-~\\])/g;
const openSequence = /\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x07\x1b\n]{0,4096}\x1b?|[ -/]{0,8})$/;

function toPlainLines(text: string): string {
  let plain = text.replaceAll("\r\n", "\n");
  if (/[\r\b]/.test(plain)) plain = plain.split("\n").map(overwrite).join("\n");
  return plain.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "");
}

/**
 * The visible text of a line: after the last carriage return that text follows, with backspaces
 * applied.
 */
function overwrite(line: string): string {
  const shown = trimTail(line, "\r");
  const last = shown.slice(shown.lastIndexOf("\r") + 1);
  if (!last.includes("\b")) return last;
  const characters: string[] = [];
  for (const character of last) {
    if (character === "\b") characters.pop();
    else characters.push(character);
  }
  return characters.join("");
}
