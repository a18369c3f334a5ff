import { importsOf, type SourceFile } from "./source-files.ts";

const maxMembers = 6;

/** Interfaces that still have more members. Entries are only removed. */
const exceptions: readonly string[] = ["InputReplayerDeps", "ProjectHooksDeps", "ProviderModelDeps"];

const interfacePattern = /\binterface (\w+Deps)(?:\s+extends\s+([^{]*?))?\s*\{/g;

/**
 * Interfaces `...Deps` of constructors with more than six members, with what they extend, and
 * exceptions that are no longer needed. One sentence each.
 */
export function collaboratorProblems(files: readonly SourceFile[], allowed = exceptions): string[] {
  const sources = files
    .filter(({ path }) => path.includes("/src/") && !path.endsWith(".test.ts"))
    .map(({ path, text }) => ({ path, text: text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "") }));
  const byPath = new Map(sources.map((file) => [file.path, file]));

  const membersIn = (file: SourceFile, name: string): Set<string> => {
    const imported = importsOf(file).flatMap(({ target }) => byPath.get(target ?? "") ?? []);
    for (const source of [file, ...imported])
      for (const match of source.text.matchAll(interfacePattern)) {
        if (match[1] !== name) continue;
        const inherited = parentsOf(match[2] ?? "").flatMap(({ utility, parent, keys }) => {
          if (utility === "Pick") return keys;
          return [...membersIn(source, parent)].filter((key) => !keys.includes(key));
        });
        return new Set([...memberNames(source.text.slice(match.index + match[0].length)), ...inherited]);
      }
    return new Set();
  };

  const problems = new Map<string, string>();
  for (const file of sources)
    for (const [, name = ""] of file.text.matchAll(/\bconstructor\([^)]*?: (\w+Deps)\b/g)) {
      const { size } = membersIn(file, name);
      if (size > maxMembers)
        problems.set(name, `${file.path}: ${name} has ${size} members, more than ${maxMembers}.`);
    }
  const unused = allowed.filter((name) => !problems.has(name));
  return [
    ...[...problems].flatMap(([name, problem]) => (allowed.includes(name) ? [] : [problem])),
    ...unused.map((name) => `${name} needs no exception: remove it from scripts/check/collaborators.ts.`),
  ];
}

/** The parents after `extends`: `A`, `Pick<A, "x" | "y">` or `Omit<A, "x">`. */
function parentsOf(text: string): { utility: string | undefined; parent: string; keys: string[] }[] {
  const parents = text.matchAll(/(?:(Pick|Omit|Partial)<\s*)?(\w+)(?:\["\w+"\])?((?:[\s,|]*"\w+")*)[\s>,]*/g);
  return Array.from(parents, ([, utility, parent = "", keys = ""]) => ({
    utility,
    parent,
    keys: Array.from(keys.matchAll(/\w+/g), ([key]) => key),
  }));
}

/** The names of the members at the beginning of `text`, up to the end of the interface. */
function memberNames(text: string): string[] {
  let depth = 0;
  let member = "";
  const names: string[] = [];
  for (const character of text) {
    if ("{([".includes(character)) depth++;
    if (depth === 0 && (character === ";" || character === "}")) {
      const [, name] = /^\s*(?:readonly )?(\w+)/.exec(member) ?? [];
      if (name !== undefined) names.push(name);
      if (character === "}") break;
      member = "";
    } else member += character;
    if ("})]".includes(character)) depth--;
  }
  return names;
}
