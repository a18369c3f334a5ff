/**
 * Maximum nesting of arguments: code that walks, checks or serialises an event uses one stack frame
 * per level.
 */
const maxLevels = 64;

/** Whether something is nested deeper than any tool asks for. Itself it takes no stack. */
export function isTooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let levels = 0; level.length > 0; levels++) {
    if (levels > maxLevels) return true;
    level = level.flatMap((one) => (typeof one === "object" && one !== null ? Object.values(one) : []));
  }
  return false;
}

/**
 * Arguments of an earlier call as an object. Unusable ones, which already got an error, are wrapped
 * as text, because endpoints refuse them.
 */
export function toArgumentsObject(text: string): object {
  try {
    const value: unknown = JSON.parse(text || "{}");
    if (typeof value === "object" && value !== null && !Array.isArray(value) && !isTooDeep(value))
      return value;
  } catch {}
  return { malformed_arguments: text };
}
