/** Longest pattern and path, characters. */
const maxLength = 4_096;

/**
 * Whether a path matches a pattern in the manner of gitignore: `**` is any number of folders, `*` and `?` stand within a name, a pattern without a slash stands for
 * names at any depth, one that ends in a slash for all below. Takes time in proportion to both lengths multiplied, whatever they hold.
 */
export function matchesGlob(pattern: string, path: string): boolean {
  if (pattern.length > maxLength || path.length > maxLength) return false;
  const anchored = pattern.replace(/^\.\//, "").replace(/\/$/, "/**");
  const words = anchored.replace(/^\//, "").split("/");
  if (!anchored.includes("/")) words.unshift("**");
  return matchesWords(words, path.split("/"));
}

/** Row by row: whether the first words match the first names. */
function matchesWords(words: readonly string[], names: readonly string[]): boolean {
  let row = [true, ...names.map(() => false)];
  for (const word of words) {
    const next = [word === "**" && row[0]!];
    for (const [index, name] of names.entries()) {
      next.push(word === "**" ? row[index + 1]! || next[index]! : row[index]! && matchesName(word, name));
    }
    row = next;
  }
  return row.at(-1)!;
}

function matchesName(word: string, name: string): boolean {
  let at = 0;
  let inWord = 0;
  let star = -1;
  let starAt = 0;
  while (at < name.length) {
    if (word[inWord] === "*") {
      star = inWord++;
      starAt = at;
    } else if (word[inWord] === "?" || word[inWord] === name[at]) {
      inWord++;
      at++;
    } else if (star >= 0) {
      inWord = star + 1;
      at = ++starAt;
    } else return false;
  }
  while (word[inWord] === "*") inWord++;
  return inWord === word.length;
}
