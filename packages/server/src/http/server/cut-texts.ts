/**
 * Cuts the texts of a JSON value that are longer than `maxChars` in the middle, with a note, and
 * leaves out images of that length.
 */
export function cutTexts(value: unknown, maxChars: number): unknown {
  if (typeof value === "string") return cutText(value, maxChars);
  if (Array.isArray(value))
    return value.filter((item) => !isLongImage(item, maxChars)).map((item) => cutTexts(item, maxChars));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cutTexts(item, maxChars)]));
}

/** A part of an image is useless. */
function isLongImage(item: unknown, maxChars: number): boolean {
  return typeof item === "string" && item.length > maxChars && item.startsWith("data:");
}

function cutText(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const kept = maxChars >> 1;
  return `${text.slice(0, kept)}\n[${text.length - 2 * kept} characters are left out]\n${text.slice(-kept)}`;
}
