import { normaliseEscapes, toCharCodes } from "./normalised-text.ts";

/**
 * Shorter encodings are too common in ordinary text to be searched. Also the width of a matcher's
 * window.
 */
export const minEncodingLength = 6;

/** A shorter encoding must be contiguous, because words with blanks between them could spell it. */
const minSpread = 12;

/** A line of a longer secret, such as those of a key file, that is a secret for itself. */
const lineOfSecret = /^(?!-----)\S{24,}$/;

/** A way in which a secret may stand in a text without blanks and escapes (`squeeze`). */
export interface SecretEncoding {
  text: string;
  /** The encoding may contain line ends and blanks. */
  spread: boolean;
}

/**
 * The encodings in which tools write a value: plain, JSON, URL, HTML, hexadecimal, and base64 at
 * each offset in both alphabets; a value of several lines also line by line.
 */
export function encodeSecret(value: string): SecretEncoding[] {
  const bytes = Buffer.from(value.toWellFormed());
  const texts = new Set([
    ...plainForms(value),
    ...base64Forms(bytes),
    bytes.toString("hex"),
    bytes.toString("hex").toUpperCase(),
  ]);
  if (/[\r\n]/.test(value)) {
    const lines = value.split(/[\r\n]+/).map((line) => line.trim());
    for (const line of lines)
      if (lineOfSecret.test(line)) for (const form of plainForms(line)) texts.add(form);
  }
  return [...texts]
    .filter((text) => text.length >= minEncodingLength)
    .map((text) => ({ text, spread: text.length >= minSpread }));
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

function squeezed(text: string): string {
  const { codes, length } = normaliseEscapes(toCharCodes(text));
  return Array.from(codes.subarray(0, length), (code) => String.fromCharCode(code)).join("");
}

function withoutBlanks(text: string): string {
  return text.replaceAll(/[\0-\x20]+/g, "");
}
