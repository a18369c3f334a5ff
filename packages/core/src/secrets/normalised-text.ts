/**
 * A text without blanks and escapes, with the origin of each character. Valid until the next text
 * is normalised.
 */
export interface NormalisedText {
  codes: Uint16Array;
  length: number;
  /**
   * For each character, the index in the original text where it begins; one more entry for the end.
   */
  from: Uint32Array;
  /** For each character, its length in the original text. */
  spans: Uint8Array;
}

const [percent, backslash, ampersand] = [0x25, 0x5c, 0x26];
const plain = new Set([...`"'/\\\``].map((char) => char.charCodeAt(0)));
const blanks = new Set([..."nrtbfv"].map((char) => char.charCodeAt(0)));
const entities: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  "#39": "'",
  "#x27": "'",
  "#34": '"',
};

/**
 * Removes blanks and line ends, and decodes the escapes of JSON, URLs, shells and HTML, so that a
 * value looks the same however a tool wraps or quotes it. URL escapes beyond ASCII stay, with
 * upper-case digits. Linear in the length of the text.
 */
export function normaliseEscapes(text: Uint16Array): NormalisedText {
  const { codes, from, spans } = roomFor(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text[at]!;
    if (code <= 0x20) continue;
    if (code <= backslash && (code === percent || code === backslash || code === ampersand)) {
      const found =
        code === percent
          ? readPercent(text, at)
          : code === backslash
            ? readBackslash(text, at)
            : readEntity(text, at);
      if (found) {
        for (const one of found.codes) {
          from[length] = at;
          spans[length] = found.length;
          codes[length++] = one;
        }
        at += found.length - 1;
        continue;
      }
    }
    from[length] = at;
    spans[length] = 1;
    codes[length++] = code;
  }
  from[length] = text.length;
  return { codes, length, from, spans };
}

/** The UTF-16 units of a text. */
export function toCharCodes(text: string): Uint16Array {
  const bytes = Buffer.allocUnsafeSlow(text.length * 2);
  bytes.write(text, "utf16le");
  return new Uint16Array(bytes.buffer, bytes.byteOffset, text.length);
}

/** An incomplete escape at the end of a text. */
export const unfinishedEscape = /(?:%[0-9a-f]?|\\(?:u[0-9a-f]{0,3}|x[0-9a-f]?)?|&#?[a-z0-9]{0,4})$/i;

type Room = Omit<NormalisedText, "length">;

/** Longest text whose room is kept for the next one. */
const keptRoom = 2 ** 20;
let kept: Room | undefined;

function roomFor(length: number): Room {
  if (length > keptRoom) return newRoom(length);
  kept ??= newRoom(keptRoom);
  return kept;
}

function newRoom(length: number): Room {
  return { codes: new Uint16Array(length), from: new Uint32Array(length + 1), spans: new Uint8Array(length) };
}

interface Escape {
  /** None for a blank. */
  codes: number[];
  /** Characters that it takes in the text. */
  length: number;
}

function readPercent(text: Uint16Array, at: number): Escape | undefined {
  const code = readHex(text, at + 1, 2);
  if (code === undefined) return undefined;
  if (code < 0x80) return { codes: visible(code), length: 3 };
  const digits = code.toString(16).toUpperCase();
  return { codes: [percent, digits.charCodeAt(0), digits.charCodeAt(1)], length: 3 };
}

function readBackslash(text: Uint16Array, at: number): Escape | undefined {
  const next = text[at + 1];
  if (next === undefined) return undefined;
  if (next <= 0x20 || blanks.has(next)) return { codes: [], length: 2 };
  if (plain.has(next)) return { codes: [next], length: 2 };
  const digits = next === 0x75 ? 4 : next === 0x78 ? 2 : 0;
  const code = digits ? readHex(text, at + 2, digits) : undefined;
  return code === undefined ? undefined : { codes: visible(code), length: 2 + digits };
}

function readEntity(text: Uint16Array, at: number): Escape | undefined {
  let name = "";
  for (let index = at + 1; index < at + 7 && index < text.length; index++) {
    if (text[index] === 0x3b) {
      const found = Object.hasOwn(entities, name) ? entities[name] : undefined;
      return found === undefined ? undefined : { codes: [found.charCodeAt(0)], length: index + 1 - at };
    }
    name += String.fromCharCode(text[index]!).toLowerCase();
  }
  return undefined;
}

function visible(code: number): number[] {
  return code <= 0x20 ? [] : [code];
}

function readHex(text: Uint16Array, at: number, digits: number): number | undefined {
  let value = 0;
  for (let index = at; index < at + digits; index++) {
    const code = (text[index] ?? 0) | 0x20;
    const digit =
      code >= 0x30 && code <= 0x39 ? code - 0x30 : code >= 0x61 && code <= 0x66 ? code - 0x57 : -1;
    // A blank is no digit, though `| 0x20` makes digits of some control characters.
    if (digit < 0 || text[index]! < 0x30) return undefined;
    value = value * 16 + digit;
  }
  return value;
}
