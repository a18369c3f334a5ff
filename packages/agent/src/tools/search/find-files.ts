import { posix } from "node:path";
import { globMatcher } from "@sandpiper/core/glob";
import { runScript } from "@sandpiper/sandbox/files/files";
import { textContent } from "@sandpiper/wire";
import type { ToolContext } from "../tool.ts";

/** Files of a result (events.md section 3). */
const maxFiles = 100;

/** Time of one search, ms. */
const timeoutMs = 30_000;
const maxOutputBytes = 8 * 2 ** 20;

/**
 * Arguments: folder, optional grep pattern. Writes `seconds path` per file. Exit code 42: no
 * folder; 44: grep's message for a bad pattern.
 */
const findScript = `
[ -e "$1" ] || exit 42
if [ "$#" -gt 1 ]; then
  # Without a line busybox would not look at the pattern.
  problem=$(echo | grep -qE -e "$2" 2>&1 >/dev/null); [ $? -lt 2 ] || { printf '%s' "$problem" >&2; exit 44; }
  find "$1" \\( -name .git -o -name node_modules \\) -prune -o -type f -exec grep -lisE -e "$2" -- {} + 2>/dev/null |
    tr '\\n' '\\0' | xargs -0 stat -c '%Y %n' -- 2>/dev/null
else
  find "$1" \\( -name .git -o -name node_modules \\) -prune -o -type f -exec stat -c '%Y %n' -- {} + 2>/dev/null
fi
exit 0`;

/** Matches paths; the pattern may begin with `/` or `./`. */
export function pathMatcher(pattern: string): (path: string) => boolean {
  return globMatcher(pattern.replace(/^\.?\/+/, ""), { extended: true });
}

/**
 * The files below a folder that pass the test and contain the pattern, last changed first, with the
 * text for the model.
 */
export async function findFiles(
  context: ToolContext,
  folder: string,
  passes: (path: string) => boolean,
  pattern?: string,
) {
  const sandbox = await context.sandbox();
  const args = [folder, ...(pattern === undefined ? [] : [pattern])];
  const result = await runScript(sandbox, findScript, args, {
    timeoutMs,
    maxOutputBytes,
    signal: context.signal,
  });
  if (result.code === 42) return failed(`There is no ${folder}; give a path that exists.`);
  if (result.code === 44)
    return failed(`The pattern cannot be used: ${result.stderr.toString().trim().slice(0, 300)}.`);
  if (result.timedOut) return failed("The search took too long; search in a smaller folder.");
  const found = result.stdout
    .toString()
    .split("\n")
    .map((line) => /^(\d+) (\/.*)$/.exec(line))
    .filter((line) => line !== null)
    .map(([, seconds, path]) => ({ seconds: Number(seconds), path: path! }))
    .filter(({ path }) => passes(posix.relative(folder, path) || posix.basename(path)))
    .toSorted((a, b) => b.seconds - a.seconds || (a.path < b.path ? -1 : 1));
  const files = found.slice(0, maxFiles).map(({ path }) => path);
  const truncated = found.length > maxFiles || result.truncated;
  return { content: [textContent(foundText(files, folder, truncated))], is_error: false, files, truncated };
}

function failed(problem: string) {
  return { content: [textContent(problem)], is_error: true, files: [], truncated: false };
}

/** Resolves a search path against the working directory. */
export function searchFolder(context: ToolContext, path: string | null | undefined): string {
  return posix.resolve(context.workingDir, path || ".");
}

function foundText(files: readonly string[], where: string, truncated: boolean): string {
  if (files.length === 0) return `Nothing found in ${where}.`;
  const count = `${files.length} ${files.length === 1 ? "match" : "matches"} in ${where}:`;
  const more = truncated
    ? `\n[Only the ${maxFiles} files that were changed last are shown. Narrow the pattern or the path.]`
    : "";
  return `${count}\n${files.join("\n")}${more}`;
}
