import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { failureReason, randomSuffix, runScript, writeFile } from "@sandpiper/sandbox/files/files";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";

/** New content of a file; undefined removes it. */
export interface Write {
  path: string;
  content: Buffer | undefined;
}

/**
 * Arguments: a random word, then action, number and path per file. Staged contents and backups lie
 * next to their files until all is done; a failure restores the backups.
 */
const commitScript = `
word=$1; shift
names() { target=$3; [ -L "$3" ] && target=$(readlink -f -- "$3"); new=\${3%/*}/.patch-$word-$2; old=\${target%/*}/.patched-$word-$2; }
replace() {
  if [ -e "$target" ]; then
    [ -w "$target" ] && chmod "$(stat -c %a -- "$target")" "$new" || return 1
    ln -- "$target" "$old" 2>/dev/null || cp -p -- "$target" "$old" || return 1
  fi
  mv -f -- "$new" "$target"
}
each() {
  work=$1; shift
  while [ $# -ge 3 ]; do names "$1" "$2" "$3"; "$work" "$1" || return 1; shift 3; done
}
commit() { if [ "$1" = write ]; then replace; else mv -f -- "$target" "$old"; fi; }
back() {
  if [ -e "$old" ]; then mv -f -- "$old" "$target"
  elif [ "$1" = write ] && [ ! -e "$new" ]; then rm -f -- "$target"
  fi
  rm -f -- "$new"
}
clean() { rm -f -- "$old"; }
each commit "$@" || { echo "$target cannot be written" >&2; each back "$@"; exit 45; }
each clean "$@"`;

/** Writes and removes all files or none. Throws InvalidParameter, and what `exec` throws. */
export async function writeAll(
  sandbox: Sandbox,
  writes: readonly Write[],
  signal: AbortSignal,
): Promise<void> {
  const word = randomSuffix();
  const staged = (path: string, index: number) => `${posix.dirname(path)}/.patch-${word}-${index}`;
  const undo = async () => {
    const paths = writes.flatMap(({ path, content }, index) => (content ? [staged(path, index)] : []));
    await runScript(sandbox, 'rm -f -- "$@"', paths).catch(() => {});
  };
  try {
    for (const [index, { path, content }] of writes.entries())
      if (content) await writeFile(sandbox, staged(path, index), content, { signal });
    signal.throwIfAborted();
  } catch (error) {
    await undo();
    throw error;
  }
  const args = writes.flatMap(({ path, content }, index) => [
    content ? "write" : "remove",
    String(index),
    path,
  ]);
  const result = await runScript(sandbox, commitScript, [word, ...args]);
  if (result.code === 0) return;
  await undo();
  throw new PlatformError("PatchNotApplied", { reason: failureReason(result) });
}
