/** A place in a text: from (inclusive), to (exclusive). */
export type TextRange = [from: number, to: number];

/** Adds a range that begins at or after the last one; merges them where they overlap or touch. */
export function addRange(ranges: TextRange[], from: number, to: number): void {
  const last = ranges.at(-1);
  if (last && from <= last[1]) last[1] = Math.max(last[1], to);
  else ranges.push([from, to]);
}

/** Ranges in order, merged where they overlap or touch. */
export function mergeRanges(ranges: readonly TextRange[]): TextRange[] {
  const result: TextRange[] = [];
  for (const [from, to] of ranges.toSorted((a, b) => a[0] - b[0])) addRange(result, from, to);
  return result;
}

/** A part of a text, from `start` to `end`, each range in it replaced. */
export function replaceRanges(
  text: string,
  ranges: readonly TextRange[],
  by: string,
  start = 0,
  end = text.length,
): string {
  let result = "";
  let done = start;
  for (const [from, to] of ranges) {
    if (to <= start) continue;
    result += text.slice(done, Math.max(from, done)) + by;
    done = to;
  }
  return result + text.slice(done, end);
}
