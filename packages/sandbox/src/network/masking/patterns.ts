/** Bytes to find, with the lengths of their own beginnings that end at each place. */
export interface Pattern {
  bytes: Buffer;
  /** Of Knuth, Morris and Pratt: the longest shorter beginning that also ends here. */
  fallback: Uint16Array;
}

/** Shorter values occur in ordinary text. */
export const minSecretLength = 6;
/** Longer secrets are masked up to here; no server takes a longer header. */
const maxSecretLength = 8_192;
/** A long form is searched in pieces, so that a stream holds back little, bytes. */
const pieceLength = 256;

/**
 * The forms in which a server writes a value of a header (one character per byte): plain, in URLs
 * and JSON, hexadecimal, and base64 at each offset in both alphabets.
 */
export function makePatterns(value: string): Pattern[] {
  const bytes = Buffer.from(value.slice(0, maxSecretLength), "latin1");
  if (bytes.length < minSecretLength) return [];
  const text = bytes.toString("utf8");
  const hex = bytes.toString("hex");
  const forms = new Set([
    ...[encodeURIComponent(text), encodeURI(text), text],
    ...[text.toLowerCase(), text.toUpperCase()],
    ...[JSON.stringify(text).slice(1, -1), text.replaceAll("/", "\\/")],
    ...[hex, hex.toUpperCase(), ...base64Forms(bytes)],
  ]);
  return [...forms].filter((form) => form.length >= minSecretLength).flatMap(toPieces);
}

/** The part of a base64 text that depends only on these bytes, for each offset where they begin. */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    const end = Math.floor(((before + bytes.length) * 8) / 6);
    const core = encoded.slice(Math.ceil((before * 8) / 6), end);
    return [core, core.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

function toPieces(form: string): Pattern[] {
  const bytes = Buffer.from(form);
  const count = Math.ceil(bytes.length / pieceLength);
  return Array.from({ length: count }, (_, index) => {
    const from = Math.floor((index * bytes.length) / count);
    const to = Math.floor(((index + 1) * bytes.length) / count);
    const piece = bytes.subarray(from, to);
    return { bytes: piece, fallback: findFallbacks(piece) };
  });
}

function findFallbacks(bytes: Buffer): Uint16Array {
  const fallback = new Uint16Array(bytes.length);
  for (let at = 1, length = 0; at < bytes.length; at++) {
    while (length > 0 && bytes[at] !== bytes[length]) length = fallback[length - 1]!;
    if (bytes[at] === bytes[length]) length++;
    fallback[at] = length;
  }
  return fallback;
}

/** Length of the longest end of `bytes` that is a beginning, but not the whole, of a pattern. */
export function overlapLength(bytes: Buffer, { bytes: wanted, fallback }: Pattern): number {
  let length = 0;
  for (let at = Math.max(0, bytes.length - wanted.length + 1); at < bytes.length; at++) {
    while (length > 0 && bytes[at] !== wanted[length]) length = fallback[length - 1]!;
    if (bytes[at] === wanted[length]) length++;
  }
  return length;
}
