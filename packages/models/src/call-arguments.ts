/** Levels of arguments: whoever walks through an event, checks it or writes it as text takes one frame of the stack for each. */
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
 * Arguments of a call as they go back to a model that has to have an object: what is none, or one that is nested too deep, was answered with an error
 * already, and endpoints refuse it. It goes back as text inside one.
 */
export function argumentsObject(text: string): object {
  try {
    const value: unknown = JSON.parse(text || "{}");
    if (typeof value === "object" && value !== null && !Array.isArray(value) && !isTooDeep(value))
      return value;
  } catch {}
  return { malformed_arguments: text };
}
