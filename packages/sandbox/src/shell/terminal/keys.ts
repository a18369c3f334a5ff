const named: Record<string, string> = {
  UP: "\x1b[A",
  DOWN: "\x1b[B",
  RIGHT: "\x1b[C",
  LEFT: "\x1b[D",
  HOME: "\x1b[H",
  END: "\x1b[F",
  PGUP: "\x1b[5~",
  PGDN: "\x1b[6~",
  TAB: "\t",
  ESC: "\x1b",
  BS: "\x7f",
  ENTER: "\r",
};

/** The characters of a key by its name (`C-c`, `UP`, `ENTER`, ...; agent-behaviour.md section 13). Undefined for any other text. */
export function toKeyCharacters(name: string): string | undefined {
  const key = name.trim();
  const letter = /^C-([a-zA-Z])$/.exec(key)?.[1];
  if (letter) return String.fromCharCode(letter.toUpperCase().charCodeAt(0) - 64);
  return Object.hasOwn(named, key) ? named[key] : undefined;
}

/** `CTRL+C` for `C-c`; undefined for anything that is no control key. */
export function toControlKeyName(name: string): string | undefined {
  const letter = /^C-([a-zA-Z])$/.exec(name.trim())?.[1];
  return letter ? `CTRL+${letter.toUpperCase()}` : undefined;
}

/** What is typed for an input: a named key as it is, any other text with Enter after it. */
export function toInputCharacters(input: string): string {
  return toKeyCharacters(input) ?? `${input.replace(/\r?\n/g, "\r")}\r`;
}
