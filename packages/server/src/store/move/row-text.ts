import { toStorable } from "../postgres/parameters.ts";

/** How PostgreSQL stores a column; SQLite has no booleans. */
export type ColumnType = "text" | "integer" | "boolean" | "bytes" | "double";

/** A value of SQLite. */
export type Value = null | number | string | Uint8Array;

const escapes: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
};

/**
 * Returns a row in the text format of COPY, exactly as PostgreSQL writes it, with its newline. A
 * double gets as many digits as it needs. With `exactDoubles` it gets its eight bytes instead,
 * because SQLite and PostgreSQL round to different digits.
 */
export function toRowText(
  values: readonly Value[],
  types: readonly ColumnType[],
  exactDoubles: boolean,
): string {
  const texts = values.map((value, index) => toText(value, types[index]!, exactDoubles));
  return `${texts.join("\t")}\n`;
}

function toText(value: Value, type: ColumnType, exactDoubles: boolean): string {
  if (value === null) return "\\N";
  switch (type) {
    case "text":
      return escapeText(toStorable(value as string));
    case "bytes":
      return toHex(Buffer.from(value as Uint8Array));
    case "boolean":
      return value === 0 ? "f" : "t";
    case "double":
      return exactDoubles ? toHex(bytesOf(value as number)) : String(value);
    case "integer":
      return String(value);
  }
}

function escapeText(text: string): string {
  return text.replace(/[\\\b\t\n\v\f\r]/g, (character) => escapes[character]!);
}

function toHex(bytes: Buffer): string {
  return `\\\\x${bytes.toString("hex")}`;
}

function bytesOf(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes;
}
