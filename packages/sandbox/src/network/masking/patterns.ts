import { EncodingTrie } from "@sandpiper/core/secrets/encoding-trie";

/** Shorter values occur in ordinary text. */
export const minSecretLength = 6;
/** Longer secrets are masked up to here; no server takes a longer header. */
const maxSecretLength = 8_192;

/** Finds values, in the forms in which servers write them, all in one pass over the bytes. */
export class Patterns {
  readonly #trie = new EncodingTrie();

  constructor(values: Iterable<string> = []) {
    for (const value of values) this.add(value);
  }

  /** Finds a value (one character per byte) too from now on. */
  add(value: string): void {
    for (const form of makeForms(value)) this.#trie.add(form);
  }

  /** Calls `found` with each place of a form in the bytes. */
  find(bytes: Uint16Array, found: (from: number, to: number) => void): void {
    this.#trie.find(bytes, bytes.length, () => true, found);
  }

  /** How many bytes at the end may be the beginning of a form. */
  openLength(bytes: Uint16Array): number {
    return this.#trie.isEmpty ? 0 : bytes.length - this.#trie.openFrom(bytes, bytes.length, false);
  }
}

/**
 * The forms in which a server writes a value of a header (one character per byte): plain, in URLs
 * and JSON, hexadecimal, and base64 at each offset in both alphabets.
 */
function makeForms(value: string): string[] {
  const bytes = Buffer.from(value.slice(0, maxSecretLength), "latin1");
  if (bytes.length < minSecretLength) return [];
  const text = bytes.toString("utf8");
  const hex = bytes.toString("hex");
  const forms = [
    ...[encodeURIComponent(text), encodeURI(text), text],
    ...[text.toLowerCase(), text.toUpperCase()],
    ...[JSON.stringify(text).slice(1, -1), text.replaceAll("/", "\\/")],
    ...[hex, hex.toUpperCase(), ...base64Forms(bytes)],
  ].map((form) => Buffer.from(form).toString("latin1"));
  return [...new Set(forms)].filter((form) => form.length >= minSecretLength);
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
