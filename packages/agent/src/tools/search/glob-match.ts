/** Most alternatives that braces may stand for. */
const maxAlternatives = 64;

/**
 * A test for paths by a glob: `*` and `?` within a folder's name, `**` any number of folders, `[a-z]`, `{a,b}`. A pattern without `/` is matched
 * against the last part alone. The time grows with the product of both lengths at most, whatever the pattern.
 */
export function globMatcher(pattern: string): (path: string) => boolean {
  const alternatives = expandBraces(pattern.replace(/^\.?\/+/, "")).map((one) => one.split("/"));
  return (path) => {
    const parts = path.split("/");
    return alternatives.some((glob) =>
      glob.length === 1 && glob[0] !== "**" ? matchName(glob[0]!, parts.at(-1)!) : matchParts(glob, parts),
    );
  };
}

/** Two pointers: after a mismatch only the last `**` takes one part more. */
function matchParts(glob: readonly string[], parts: readonly string[]): boolean {
  let [at, star, mark] = [0, -1, 0];
  let index = 0;
  while (index < parts.length) {
    if (at < glob.length && glob[at] === "**") [star, mark, at] = [at, index, at + 1];
    else if (at < glob.length && matchName(glob[at]!, parts[index]!)) [at, index] = [at + 1, index + 1];
    else if (star >= 0) [mark, index, at] = [mark + 1, mark + 1, star + 1];
    else return false;
  }
  while (glob[at] === "**") at++;
  return at === glob.length;
}

/** The same within one name. */
function matchName(glob: string, name: string): boolean {
  const tokens = glob.match(/\[[^\]]+\]|[\s\S]/g) ?? [];
  let [at, star, mark] = [0, -1, 0];
  let index = 0;
  while (index < name.length) {
    const token = tokens[at];
    if (token === "*") [star, mark, at] = [at, index, at + 1];
    else if (token !== undefined && matchCharacter(token, name[index]!)) [at, index] = [at + 1, index + 1];
    else if (star >= 0) [mark, index, at] = [mark + 1, mark + 1, star + 1];
    else return false;
  }
  while (tokens[at] === "*") at++;
  return at === tokens.length;
}

function matchCharacter(token: string, character: string): boolean {
  if (token === "?") return true;
  if (token.length === 1) return token === character;
  const [, negated, inside] = /^\[([!^]?)([\s\S]*)\]$/.exec(token)!;
  let found = false;
  for (const [range, from, to] of inside!.matchAll(/([\s\S])-([\s\S])|[\s\S]/g))
    found ||= from === undefined ? range === character : from <= character && character <= to!;
  return negated === "" ? found : !found;
}

function expandBraces(pattern: string): string[] {
  const done: string[] = [];
  const open = [pattern];
  while (open.length > 0 && done.length + open.length <= maxAlternatives) {
    const one = open.shift()!;
    const [whole, inside] = /\{([^{}]*,[^{}]*)\}/.exec(one) ?? [];
    if (whole === undefined) done.push(one);
    else open.push(...inside!.split(",").map((part) => one.replace(whole, () => part)));
  }
  return [...done, ...open].slice(0, maxAlternatives);
}
