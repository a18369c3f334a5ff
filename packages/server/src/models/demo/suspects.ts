import { type Mutation, mutateLine } from "./mutations.ts";
import { mismatches, type TestRun } from "./test-run.ts";
import { languageOf } from "./tokens.ts";

/** A change to try: one line of a file becomes another. */
export interface Candidate extends Mutation {
  path: string;
  /** From 0. */
  index: number;
  score: number;
}

/** Whether a path is a test rather than what is tested. */
export function isTestFile(path: string): boolean {
  return /(^|\/)(tests?|__tests__|specs?)\/|(^|[/._-])(tests?|spec)[._-][^/]*$|[._-](tests?|spec)\.[^/]*$|(^|\/)(run[-_]?)?tests?\.[^/]+$/i.test(
    path,
  );
}

/** Source files in the order in which the output makes them suspicious, at most `limit`. */
export function suspiciousFiles(files: readonly string[], output: string, limit: number): string[] {
  const words = wordsOf(output);
  const score = (path: string) => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const stem = name.replace(/\.[^.]*$/, "");
    return (output.includes(name) ? 4 : 0) + (words.has(stem.toLowerCase()) ? 2 : 0) - path.split("/").length * 0.1;
  };
  return files
    .filter((path) => languageOf(path) && !isTestFile(path) && !/(^|\/)(node_modules|vendor|dist|build|\.[^/]+)\//.test(path))
    .sort((a, b) => score(b) - score(a) || a.localeCompare(b))
    .slice(0, limit);
}

/** Changes worth trying in these files (path to lines), the most promising first. */
export function rankCandidates(sources: ReadonlyMap<string, readonly string[]>, run: TestRun): Candidate[] {
  const failing = failingPart(run.output);
  const words = wordsOf(failing);
  const wrong = mismatches(failing);
  const candidates: Candidate[] = [];
  for (const [path, lines] of sources) {
    const language = languageOf(path);
    if (!language) continue;
    const owners = functionOfLine(lines);
    const named = lineNumbers(failing, path);
    lines.forEach((line, index) => {
      if (line.length > 400 || /^\s*($|#|\/\/|\*|import\b|from\b|export \*|use\b|package\b|set -)/.test(line)) return;
      const where = suspicion(line, owners[index], words) + (named.has(index + 1) ? 4 : 0);
      for (const mutation of mutateLine(line, language, wrong))
        candidates.push({ ...mutation, path, index, score: where + mutation.weight });
    });
  }
  return candidates.sort((a, b) => b.score - a.score || a.path.localeCompare(b.path) || a.index - b.index);
}

/** The lines of the output that speak of failures, with some around them; the whole output when none stands out. */
function failingPart(output: string): string {
  const lines = output.split("\n");
  const kept = lines.filter(
    (line, at) => lines.slice(Math.max(0, at - 2), at + 9).some(isFailure) && !/^\s*(ok\b|PASS\b|✓|✔)/.test(line),
  );
  return kept.some(isFailure) ? kept.join("\n") : output;
}

const isFailure = (line: string) => /\b(fail(ed|ure|ures|ing)?|not ok|error|expected|assert\w*)\b|✗|✖|×|!==?/i.test(line);

const common = new Set(
  "the and not for with from test tests fail failed failure error expected actual got was true false none null ok pass passed line file assert assertionerror assertequal equal strictequal exit code command return function def self print echo in of to is at be it".split(
    " ",
  ),
);

/** Words of a text, with the parts of snake_case and camelCase words, in lower case. */
function wordsOf(text: string): Set<string> {
  const words = new Set<string>();
  for (const [word] of text.matchAll(/[A-Za-z_]\w+/g)) {
    for (const part of [word, ...word.split(/_|(?<=[a-z])(?=[A-Z])/)]) {
      if (part.length > 2 && !common.has(part.toLowerCase())) words.add(part.toLowerCase());
    }
  }
  return words;
}

function suspicion(line: string, owner: string | undefined, words: ReadonlySet<string>): number {
  const own = owner ? (words.has(owner.toLowerCase()) ? 5 : [...wordsOf(owner)].some((word) => words.has(word)) ? 2 : 0) : 0;
  const shared = [...wordsOf(line)].filter((word) => words.has(word)).length;
  return own + Math.min(shared, 3);
}

/** For every line, the name of the function whose body it belongs to, as far as headers tell. */
function functionOfLine(lines: readonly string[]): (string | undefined)[] {
  let current: { name: string; indent: number } | undefined;
  return lines.map((line) => {
    const indent = line.length - line.trimStart().length;
    const header =
      /^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:def|function|func|fn)\s+\*?([A-Za-z_]\w*)/.exec(line) ??
      /^\s*([A-Za-z_]\w*)\s*\(\)\s*\{?/.exec(line) ??
      /^\s*(?:export\s+)?(?:const|let|var)\s+([A-Za-z_]\w*)\s*=\s*(?:async\s*)?(?:function|\([^)]*\)\s*=>|\w+\s*=>)/.exec(line) ??
      /^\s+(?:static\s+|async\s+)*([A-Za-z_]\w*)\s*\([^)]*\)\s*\{\s*$/.exec(line);
    if (header && !/^(if|for|while|switch|catch|return)$/.test(header[1]!)) current = { name: header[1]!, indent };
    else if (current && line.trim() && indent <= current.indent && !/^\s*[})\]]/.test(line)) current = undefined;
    return current?.name;
  });
}

/** Line numbers of a file that the output mentions: `path:12`, `path, line 12`, `path", line 12`. */
function lineNumbers(output: string, path: string): Set<number> {
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = new RegExp(`${name}["']?(?::|,? line |: line )(\\d+)`, "g");
  return new Set([...output.matchAll(pattern)].map((match) => Number(match[1])));
}
