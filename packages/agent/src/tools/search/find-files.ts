import { posix } from "node:path";
import { globMatcher } from "@sandpiper/core/glob";
import { runScript } from "@sandpiper/sandbox/files/files";
import type { ToolContext } from "../tool.ts";

/** Files of a result (events.md section 3). */
export const maxFiles = 100;

/** Time for one search, ms. */
const timeoutMs = 30_000;
const maxOutputBytes = 8 * 2 ** 20;

/**
 * Folder, and a pattern for grep or nothing. Writes a line for each file, `seconds path`, with the time of its last change. Ends with 42 where the
 * folder is not there, and with 44 and grep's words for a bad pattern.
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

export type Found = { files: string[]; truncated: boolean } | { problem: string };

/** A test for paths by the pattern of a call, which may begin with `/` or `./`. */
export function pathMatcher(pattern: string): (path: string) => boolean {
  return globMatcher(pattern.replace(/^\.?\/+/, ""), { extended: true });
}

/**
 * The files below a folder whose relative path passes a test and whose text has the pattern, if
 * given; the last changed first.
 */
export async function findFiles(
  context: ToolContext,
  folder: string,
  passes: (path: string) => boolean,
  pattern?: string,
): Promise<Found> {
  const sandbox = await context.sandbox();
  const args = [folder, ...(pattern === undefined ? [] : [pattern])];
  const result = await runScript(sandbox, findScript, args, {
    timeoutMs,
    maxOutputBytes,
    signal: context.signal,
  });
  if (result.code === 42) return { problem: `There is no ${folder}; give a path that exists.` };
  if (result.code === 44)
    return { problem: `The pattern cannot be used: ${result.stderr.toString().trim().slice(0, 300)}.` };
  if (result.timedOut) return { problem: "The search took too long; search in a smaller folder." };
  const found = result.stdout
    .toString()
    .split("\n")
    .map((line) => /^(\d+) (\/.*)$/.exec(line))
    .filter((line) => line !== null)
    .map(([, seconds, path]) => ({ seconds: Number(seconds), path: path! }))
    .filter(({ path }) => passes(posix.relative(folder, path) || posix.basename(path)))
    .toSorted((a, b) => b.seconds - a.seconds || (a.path < b.path ? -1 : 1));
  return {
    files: found.slice(0, maxFiles).map(({ path }) => path),
    truncated: found.length > maxFiles || result.truncated,
  };
}

/** The folder that a search means: absolute, or below the working directory. */
export function searchFolder(context: ToolContext, path: string | null | undefined): string {
  return posix.resolve(context.workingDir, path || ".");
}

/** What the model reads of found files. */
export function foundText(files: readonly string[], where: string, truncated: boolean): string {
  if (files.length === 0) return `Nothing found in ${where}.`;
  const count = `${files.length} ${files.length === 1 ? "match" : "matches"} in ${where}:`;
  const more = truncated
    ? `\n[Only the ${maxFiles} files that were changed last are shown. Narrow the pattern or the path.]`
    : "";
  return `${count}\n${files.join("\n")}${more}`;
}
