/** A value of a parameter; the elements of an array have one type. */
export type PostgresValue =
  | null
  | number
  | string
  | boolean
  | Uint8Array
  | readonly (null | number | string | boolean)[];

/**
 * Returns a text as PostgreSQL can store it: zero characters become U+FFFD, as other characters do
 * that have no encoding. JSON texts have no zero characters, because JSON escapes them.
 */
export function toStorable(text: string): string {
  return text.includes("\0") ? text.replaceAll("\0", "\ufffd") : text;
}

export function toParameter(value: PostgresValue): unknown {
  if (typeof value === "string") return toStorable(value);
  if (Array.isArray(value)) return value.map((one) => (typeof one === "string" ? toStorable(one) : one));
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
}

const numbered = new Map<string, string>();

/** Writes `?` and `?1` of the shared statements as `$1`. Such statements have no other `?`. */
export function numberParameters(sql: string): string {
  const known = numbered.get(sql);
  if (known !== undefined) return known;
  let count = 0;
  const text = sql.replace(/\?(\d*)/g, (_mark, number: string) => `$${number || ++count}`);
  // Only fixed statements have such parameters.
  if (text !== sql) numbered.set(sql, text);
  return text;
}
