/** Longest pattern and path, in characters. */
const maxLength = 4_096;
/** Most alternatives of the braces in a pattern. */
const maxAlternatives = 64;

export interface GlobOptions {
  /** Whether `[a-z]` and `{a,b}` have a meaning; otherwise their characters match themselves. */
  extended?: boolean;
}

/** `**`, or the tokens of a name: a character, `*`, `?`, or a class such as `[a-z]`. */
type Word = "**" | readonly string[];

/**
 * A test for relative paths by a glob: `*` and `?` within a name, `**` for any number of folders. A
 * pattern without a slash matches names at any depth. Takes time at most proportional to the
 * product of both lengths.
 */
export function globMatcher(
  pattern: string,
  { extended = false }: GlobOptions = {},
): (path: string) => boolean {
  if (pattern.length > maxLength) return () => false;
  const globs = (extended ? expandBraces(pattern) : [pattern]).map((one) => parseGlob(one, extended));
  return (path) => {
    const names = path.split("/");
    return path.length <= maxLength && globs.some((glob) => matchNames(glob, names));
  };
}

function parseGlob(pattern: string, extended: boolean): Word[] {
  const words = pattern
    .replace(/^\//, "")
    .split("/")
    .map((word) => (word === "**" ? word : (word.match(extended ? /\[[^[\]]+\]|[\s\S]/g : /[\s\S]/g) ?? [])));
  return pattern.includes("/") ? words : ["**", ...words];
}

const matchNames = (glob: readonly Word[], names: readonly string[]) =>
  matchWildcards(glob, names, "**", (word, name) =>
    matchWildcards(word as string[], name, "*", matchCharacter),
  );

/** Matches items one by one. After a mismatch only the last wildcard takes one more item. */
function matchWildcards<T>(
  glob: readonly T[],
  items: readonly string[] | string,
  wildcard: T,
  matches: (token: T, item: string) => boolean,
): boolean {
  let at = 0;
  let index = 0;
  let wildcardAt = -1;
  let wildcardEnd = 0;
  while (index < items.length) {
    if (at < glob.length && glob[at] === wildcard) {
      wildcardAt = at++;
      wildcardEnd = index;
    } else if (at < glob.length && matches(glob[at]!, items[index]!)) {
      at++;
      index++;
    } else if (wildcardAt >= 0) {
      index = ++wildcardEnd;
      at = wildcardAt + 1;
    } else return false;
  }
  while (glob[at] === wildcard) at++;
  return at === glob.length;
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
    const [whole, inside] = /\{([^{},]*,[^{}]*)\}/.exec(one) ?? [];
    if (whole === undefined) done.push(one);
    else open.push(...inside!.split(",").map((part) => one.replace(whole, () => part)));
  }
  return [...done, ...open].slice(0, maxAlternatives);
}
