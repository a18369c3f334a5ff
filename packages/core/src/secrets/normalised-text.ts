import { type Escape, isHidden, readBackslash, readControl, readEntity, readPercent } from "./escapes.ts";

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

const [percent, backslash, ampersand, controlStart] = [0x25, 0x5c, 0x26, 0x1b];

/**
 * Removes blanks, line ends, colours and what a screen does not show, and decodes the escapes of
 * JSON, URLs, shells and HTML, so that a value looks the same however a tool wraps, colours or
 * quotes it. URL escapes beyond ASCII stay, with upper-case digits. Linear in the length of the
 * text.
 */
export function normaliseEscapes(text: Uint16Array): NormalisedText {
  const { codes, from, spans } = roomFor(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text[at]!;
    const found = code <= backslash ? readEscape(text, at, code) : undefined;
    if (found) {
      for (const one of found.codes) {
        from[length] = at;
        spans[length] = found.length;
        codes[length++] = one;
      }
      at += found.length - 1;
    } else if (code > 0x20 && (code < 0x7f || !isHidden(code))) {
      from[length] = at;
      spans[length] = 1;
      codes[length++] = code;
    }
  }
  from[length] = text.length;
  return { codes, length, from, spans };
}

type Room = Omit<NormalisedText, "length">;

/** Longest text whose room is kept for the next one. */
const keptRoom = 2 ** 20;
let kept: Room | undefined;

/** An escape has at least as many characters as the units that it stands for. */
function roomFor(length: number): Room {
  if (length > keptRoom) return newRoom(length);
  kept ??= newRoom(keptRoom);
  return kept;
}

function newRoom(length: number): Room {
  return { codes: new Uint16Array(length), from: new Uint32Array(length + 1), spans: new Uint8Array(length) };
}

function readEscape(text: Uint16Array, at: number, code: number): Escape | undefined {
  if (code === percent) return readPercent(text, at);
  if (code === backslash) return readBackslash(text, at);
  if (code === ampersand) return readEntity(text, at);
  return code === controlStart ? readControl(text, at) : undefined;
}

/** The UTF-16 units of a text. */
export function toCharCodes(text: string): Uint16Array {
  const bytes = Buffer.allocUnsafeSlow(text.length * 2);
  bytes.write(text, "utf16le");
  return new Uint16Array(bytes.buffer, bytes.byteOffset, text.length);
}

/** The text of UTF-16 units. */
export function fromCharCodes(codes: Uint16Array): string {
  return Buffer.from(codes.buffer, codes.byteOffset, codes.byteLength).toString("utf16le");
}
