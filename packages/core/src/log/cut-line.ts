/** Longer lines are cut, characters. */
const maxLine = 16_384;

/** Longest text, and most members of a list or an object, in a line that is cut. */
const maxText = 2_000;
const maxMembers = 50;

/** A line of JSON within a bound: long texts, lists and objects are cut. */
export function cutLine(line: string): string {
  if (line.length <= maxLine) return line;
  const fields = JSON.parse(line) as Record<string, unknown>;
  const cut = JSON.stringify(cutValue(fields, 4));
  if (cut.length <= maxLine) return `${cut}\n`;
  const { level, time, msg } = fields;
  const left = { level, time, msg: cutValue(msg ?? "", 0), cut: `${line.length} characters` };
  return `${JSON.stringify(left)}\n`;
}

function cutValue(value: unknown, depth: number): unknown {
  if (typeof value === "string")
    return value.length > maxText ? `${value.slice(0, maxText)}… (${value.length} characters)` : value;
  if (value === null || typeof value !== "object") return value;
  if (depth === 0) return "…";
  if (Array.isArray(value)) return value.slice(0, maxMembers).map((item) => cutValue(item, depth - 1));
  const entries = Object.entries(value).slice(0, maxMembers);
  return Object.fromEntries(
    entries.map(([name, item]) => [name.slice(0, maxText), cutValue(item, depth - 1)]),
  );
}
