/** Takes the values of secrets out of what tools, hooks and servers give (agent-behaviour.md section 10). */
export interface OutputMask {
  text(text: string): string;
}

/** Knows no secret. */
export const noMask: OutputMask = { text: (text) => text };

/** A value with every text in it masked, keys of objects too. The value itself where nothing had to be. */
export function maskDeep<T>(value: T, mask: OutputMask): T {
  if (mask === noMask) return value;
  return masked(value, mask) as T;
}

function masked(value: unknown, mask: OutputMask): unknown {
  if (typeof value === "string") return mask.text(value);
  if (Array.isArray(value)) return value.map((item) => masked(item, mask));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [mask.text(key), masked(item, mask)]));
}
