/** A default has a bound: each of many unclosed ones would be searched to the end of the text. */
const reference =
  /\$(?:\{([A-Za-z_][A-Za-z0-9_]{0,127})(?::-([^}]{0,1000}))?\}|([A-Za-z_][A-Za-z0-9_]{0,127}))/g;

/**
 * Replaces references in a configuration's text (agent-behaviour.md section 10). Unknown names use
 * their default; `$NAME` without one stays, `${NAME}` is added to `missing`.
 */
export function expandVariables(
  text: string,
  lookUp: (name: string) => string | undefined,
  missing: Set<string>,
): string {
  if (!text.includes("$")) return text;
  return text.replace(reference, (whole, braced?: string, otherwise?: string, bare?: string) => {
    const value = lookUp(braced ?? bare ?? "");
    if (value !== undefined && value !== "") return value;
    if (otherwise !== undefined) return otherwise;
    if (value === undefined && braced !== undefined) missing.add(braced);
    return value ?? whole;
  });
}

export function findReferences(texts: readonly string[]): Set<string> {
  const names = new Set<string>();
  for (const text of texts)
    for (const [, braced, , bare] of text.matchAll(reference)) names.add(braced ?? bare ?? "");
  return names;
}
