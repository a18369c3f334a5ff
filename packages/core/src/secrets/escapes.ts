/** What stands for characters in a text: an escape of JSON, URLs, shells, HTML or a terminal. */
export interface Escape {
  /** UTF-16 units; none for a blank and for what a terminal does not show. */
  codes: readonly number[];
  /** Characters that it takes in the text. */
  length: number;
}

const [backslash, hash, semicolon, controlStart] = [0x5c, 0x23, 0x3b, 0x1b];

/** Longest run of backslashes, and most `25` and `amp;`, that are read as one escape. */
const maxBackslashes = 128;
const maxNested = 3;

const plain = charSet(`"'/\``);
const blanks = charSet("nrtbfva");
const hexDigits: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** The names of ASCII characters in HTML, in lower case. */
const entities: ReadonlyMap<string, number> = new Map(
  (
    "excl ! quot \" num # dollar $ percnt % amp & apos ' lpar ( rpar ) ast * midast * plus + comma , period . sol / colon : " +
    "semi ; lt < equals = gt > quest ? commat @ lsqb [ lbrack [ bsol \\ rsqb ] rbrack ] hat ^ lowbar _ underbar _ grave ` " +
    "lcub { lbrace { verbar | vert | verticalline | rcub } rbrace } tab \t newline \n nbsp \t shy \t zwj \t zwnj \t"
  )
    .split(" ")
    .flatMap((name, index, all): [string, number][] =>
      index % 2 === 0 ? [[name, all[index + 1]!.charCodeAt(0)]] : [],
    ),
);
const longestEntity = 12;

/** An incomplete escape at the end of a text of at most `longestUnfinished` characters. */
export const unfinishedEscape =
  /(?:%[25u0-9a-f]{0,8}|\\(?:x[0-9a-f]?|x\{[0-9a-f]{0,6}|u[0-9a-f]{0,7}|u\{[0-9a-f]{0,6}|[0-7]{0,3}|e\[[0-9;]{0,16})?|&[a-z0-9#;]{0,16}|\u001b(?:\[[0-9;]{0,16})?)$/i;
export const longestUnfinished = 24;

/** `%41`, `%2541` and `%u0041`. Units beyond ASCII stay, with upper-case digits. */
export function readPercent(text: Uint16Array, at: number): Escape | undefined {
  let from = at + 1;
  for (let nested = 0; nested < maxNested && isText(text, from, "25"); nested++) {
    if (readHex(text, from + 2, 2) === undefined) break;
    from += 2;
  }
  if (text[from] === 0x75 || text[from] === 0x55) {
    const code = readHex(text, from + 1, 4);
    return code === undefined ? undefined : { codes: visible(code), length: from + 5 - at };
  }
  const code = readHex(text, from, 2);
  if (code === undefined) return undefined;
  return { codes: byteCodes(code), length: from + 2 - at };
}

/** A byte in a text: one beyond ASCII is a part of a character, and becomes `%E9`. */
function byteCodes(byte: number): readonly number[] {
  if (byte < 0x80) return visible(byte);
  return Array.from(`%${byte.toString(16).toUpperCase()}`, (char) => char.charCodeAt(0));
}

/**
 * `\n`, `\"`, `\x41`, `\x{41}`, `\u0041`, `\u{41}`, `\U00000041` and `\101`; a run of backslashes
 * counts as one.
 */
export function readBackslash(text: Uint16Array, at: number): Escape {
  let next = at + 1;
  while (next < at + maxBackslashes && text[next] === backslash) next++;
  const code = text[next] ?? 0;
  const letter = String.fromCharCode(code);
  const to = (end: number, decoded: number): Escape => shown(text, at, end, decoded);
  if (code !== 0 && code <= 0x20) return { codes: [], length: next + 1 - at };
  if (blanks.has(code)) return { codes: [], length: next + 1 - at };
  if (plain.has(code)) return { codes: [code], length: next + 1 - at };
  if (letter === "e" || letter === "E") {
    const end = skipControl(text, next + 1);
    if (end > next + 1) return { codes: [], length: end - at };
  }
  const digits = hexDigits[letter];
  if (digits !== undefined) {
    const braced = isText(text, next + 1, "{") ? readNumber(text, next + 2, 16, 6) : undefined;
    if (braced && isText(text, braced.end, "}")) return to(braced.end + 1, braced.value);
    const decoded = readHex(text, next + 1, digits);
    if (decoded !== undefined)
      return letter === "x" && decoded >= 0x80
        ? { codes: byteCodes(decoded), length: next + 3 - at }
        : to(next + 1 + digits, decoded);
  }
  const octal = readNumber(text, next, 8, letter === "0" ? 4 : 3);
  if (octal && octal.end - next >= 2)
    return octal.value >= 0x80 && octal.value <= 0xff
      ? { codes: byteCodes(octal.value), length: octal.end - at }
      : to(octal.end, octal.value);
  return { codes: [backslash], length: next - at };
}

/** `&lt;`, `&#65;`, `&#x41;` and `&amp;lt;`; the semicolon of a number may be missing. */
export function readEntity(text: Uint16Array, at: number): Escape | undefined {
  let from = at + 1;
  for (let nested = 0; nested < maxNested && isText(text, from, "amp;"); nested++) from += 4;
  const found = text[from] === hash ? readNumberEntity(text, from + 1) : readNamedEntity(text, from);
  if (found) return { codes: visible(found.code), length: found.end - at };
  return from > at + 1 ? { codes: [0x26], length: from - at } : undefined;
}

function readNumberEntity(text: Uint16Array, at: number): { code: number; end: number } | undefined {
  const isHex = text[at] === 0x78 || text[at] === 0x58;
  const number = isHex ? readNumber(text, at + 1, 16, 6) : readNumber(text, at, 10, 7);
  return number && { code: number.value, end: number.end + (text[number.end] === semicolon ? 1 : 0) };
}

function readNamedEntity(text: Uint16Array, at: number): { code: number; end: number } | undefined {
  let name = "";
  for (let index = at; index <= at + longestEntity && index < text.length; index++) {
    const code = text[index]!;
    if (code === semicolon) {
      const known = entities.get(name.toLowerCase());
      return known === undefined ? undefined : { code: known, end: index + 1 };
    }
    if (!isLetter(code)) return undefined;
    name += String.fromCharCode(code);
  }
  return undefined;
}

/** The colour or other control sequence whose escape character is at `at`. */
export function readControl(text: Uint16Array, at: number): Escape {
  return { codes: [], length: skipControl(text, at + 1) - at };
}

/** The index after the rest of a terminal's control sequence: `[31m`, `(B`. */
function skipControl(text: Uint16Array, at: number): number {
  let end = at;
  if (text[at] === 0x5b) {
    end++;
    while (text[end]! >= 0x30 && text[end]! <= 0x3f) end++;
    while (text[end]! >= 0x20 && text[end]! <= 0x2f) end++;
    return text[end]! >= 0x40 && text[end]! <= 0x7e ? end + 1 : at;
  }
  return text[at] === 0x28 || text[at] === 0x29 ? Math.min(at + 2, text.length) : at;
}

/** An escape that ends before `end`; that of an escape character includes the control sequence. */
function shown(text: Uint16Array, at: number, end: number, code: number): Escape {
  return code === controlStart
    ? { codes: [], length: skipControl(text, end) - at }
    : { codes: visible(code), length: end - at };
}

function visible(code: number): number[] {
  if (code <= 0x20 || code > 0x10ffff || isHidden(code)) return [];
  const char = String.fromCodePoint(code);
  return char.length === 1 ? [code] : [char.charCodeAt(0), char.charCodeAt(1)];
}

/** Whether a character takes no place on a screen: controls, soft hyphens, joiners, directions. */
export function isHidden(code: number): boolean {
  return (
    (code >= 0x7f && code <= 0x9f) ||
    code === 0xad ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2060 && code <= 0x206f) ||
    code === 0xfeff
  );
}

/** A number of at most `most` digits. */
function readNumber(
  text: Uint16Array,
  at: number,
  base: number,
  most: number,
): { value: number; end: number } | undefined {
  let value = 0;
  let end = at;
  for (; end < at + most; end++) {
    const digit = digitOf(text[end] ?? 0);
    if (digit < 0 || digit >= base) break;
    value = value * base + digit;
  }
  return end > at ? { value, end } : undefined;
}

function readHex(text: Uint16Array, at: number, digits: number): number | undefined {
  const number = readNumber(text, at, 16, digits);
  return number && number.end === at + digits ? number.value : undefined;
}

function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return code >= 0x41 && lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

function isLetter(code: number): boolean {
  return (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
}

function isText(text: Uint16Array, at: number, wanted: string): boolean {
  for (let index = 0; index < wanted.length; index++)
    if (text[at + index] !== wanted.charCodeAt(index)) return false;
  return true;
}

function charSet(chars: string): ReadonlySet<number> {
  return new Set(Array.from(chars, (char) => char.charCodeAt(0)));
}
