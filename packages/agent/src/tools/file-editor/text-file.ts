import { invalidFile } from "./use-error.ts";

/** Encoding of a file, kept by edits. */
export interface TextFormat {
  encoding: "utf8" | "latin1" | "utf16le" | "utf16be";
  bom: boolean;
  /** All lines end with CR LF; in memory with LF. */
  crlf: boolean;
}

export interface TextFile {
  text: string;
  format: TextFormat;
}

export const newFormat: TextFormat = { encoding: "utf8", bom: false, crlf: false };

/** Decodes a file. Throws UseError for a binary file. */
export function decodeText(path: string, content: Buffer): TextFile {
  const { text, encoding, bom } = decode(content) ?? {};
  if (text === undefined || !encoding)
    throw invalidFile(path, "it is binary, and only text files and images can be shown");
  const crlf = text.includes("\r\n") && !/(^|[^\r])\n/.test(text);
  return { text: crlf ? text.replaceAll("\r\n", "\n") : text, format: { encoding, bom: bom ?? false, crlf } };
}

/** Encodes a text. Throws UseError for a character outside the encoding. */
export function encodeText(path: string, { text, format }: TextFile): Buffer {
  const lines = format.crlf ? text.replace(/\r?\n/g, "\r\n") : text;
  const marked = format.bom ? `\ufeff${lines}` : lines;
  if (format.encoding === "utf16be") return Buffer.from(marked, "utf16le").swap16();
  if (format.encoding === "latin1" && /[^\x00-\xff]/.test(marked)) {
    throw invalidFile(path, "it is encoded in latin-1, which lacks a character of the new text");
  }
  return Buffer.from(marked, format.encoding);
}

function decode(
  content: Buffer,
): { text: string; encoding: TextFormat["encoding"]; bom: boolean } | undefined {
  const [first, second] = content;
  if (
    content.length % 2 === 0 &&
    ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff))
  ) {
    const encoding = first === 0xff ? "utf16le" : "utf16be";
    const text = (encoding === "utf16le" ? content : Buffer.from(content).swap16())
      .toString("utf16le")
      .slice(1);
    return { text, encoding, bom: true };
  }
  if (content.includes(0)) return undefined;
  const bom = first === 0xef && second === 0xbb && content[2] === 0xbf;
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(content), encoding: "utf8", bom };
  } catch {
    const text = content.toString("latin1");
    return /[\x00-\x06\x0e-\x1a\x1c-\x1f]/.test(text) ? undefined : { text, encoding: "latin1", bom: false };
  }
}
