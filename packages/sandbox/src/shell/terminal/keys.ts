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

/** The characters of a key such as `C-c` or `UP` (agent-behaviour.md section 13). */
export function toKeyCharacters(name: string): string | undefined {
  const key = name.trim();
  const letter = /^C-([a-zA-Z])$/.exec(key)?.[1];
  if (letter) return String.fromCharCode(letter.toUpperCase().charCodeAt(0) - 64);
  return Object.hasOwn(named, key) ? named[key] : undefined;
}

/** `CTRL+C` for `C-c`; undefined for other texts. */
export function toControlKeyName(name: string): string | undefined {
  const letter = /^C-([a-zA-Z])$/.exec(name.trim())?.[1];
  return letter ? `CTRL+${letter.toUpperCase()}` : undefined;
}

/** The characters to type for an input: a named key, or a text followed by Enter. */
export function toInputCharacters(input: string): string {
  return toKeyCharacters(input) ?? `${input.replace(/\r?\n/g, "\r")}\r`;
}
