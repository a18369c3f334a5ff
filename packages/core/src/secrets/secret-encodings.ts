import { fromCharCodes, normaliseEscapes, toCharCodes } from "./normalised-text.ts";

/**
 * Shorter encodings are too common in ordinary text to be searched. Also the width of a matcher's
 * window.
 */
export const minEncodingLength = 6;

/** A shorter encoding must be contiguous, because words with blanks between them could spell it. */
export const minSpread = 12;

/** Longest value that is searched as a list of its bytes, in bytes. */
const maxListed = 1_024;

/** A line of a longer secret, such as those of a key file, that is a secret for itself. */
const lineOfSecret = /^(?!-----)\S{24,}$/;

/**
 * The ways in which tools write a value, as they look in a text without blanks and escapes
 * (`normaliseEscapes`): plain, JSON, URL, HTML, bytes in base 8, 10 and 16, and base64 at each
 * offset in both alphabets; a value of several lines also line by line.
 */
export function encodeSecret(value: string): string[] {
  const bytes = Buffer.from(value.toWellFormed());
  const encodings = new Set([...plainForms(value), ...base64Forms(bytes), ...byteForms(bytes)]);
  if (/[\r\n]/.test(value))
    for (const line of value.split(/[\r\n]/).map((text) => text.trim()))
      if (lineOfSecret.test(line)) for (const form of plainForms(line)) encodings.add(form);
  return [...encodings].filter((text) => text.length >= minEncodingLength);
}

function plainForms(value: string): string[] {
  const bare = withoutBlanks(value);
  const forms = [bare, squeezed(value)];
  // Forms of HTML write a blank as a plus.
  if (value.includes(" ")) forms.push(withoutBlanks(value.replaceAll(" ", "+")));
  if (/[^\0-\x7f]/.test(bare)) {
    forms.push(bare.toWellFormed().replaceAll(/[^\0-\x7f]+/g, (chars) => encodeURIComponent(chars)));
  }
  return forms;
}

/**
 * The part of a base64 text that depends only on these bytes, for each offset at which they can
 * begin.
 */
function base64Forms(bytes: Buffer): string[] {
  const found: string[] = [];
  for (let before = 0; before < 3; before++) {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    const whole = Math.floor(((before + bytes.length) * 8) / 6);
    const core = encoded.slice(Math.ceil((before * 8) / 6), whole);
    found.push(core, core.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return found;
}

/** The bytes in hexadecimal digits, and as lists such as `73:65`, `0x73,0x65` and `115,101`. */
function byteForms(bytes: Buffer): string[] {
  const hex = bytes.toString("hex");
  if (bytes.length > maxListed) return [hex, hex.toUpperCase()];
  const inBase = (base: number, digits: number) =>
    Array.from(bytes, (byte) => byte.toString(base).padStart(digits, "0"));
  const pairs = inBase(16, 2);
  const lists = [hex, pairs.join(":"), pairs.join("-")];
  return [
    ...lists,
    ...lists.map((list) => list.toUpperCase()),
    pairs.join(",0x"),
    inBase(10, 1).join(","),
    inBase(8, 3).join(""),
  ];
}

function squeezed(text: string): string {
  const { codes, length } = normaliseEscapes(toCharCodes(text));
  return fromCharCodes(codes.subarray(0, length));
}

function withoutBlanks(text: string): string {
  return text.replaceAll(/[\0-\x20]/g, "");
}
