import type { ExecRequest, Fence } from "../../driver.ts";

/** Folder in the sandbox with an empty file `<key>.<epoch>` for each epoch that it has seen. */
const folder = "/tmp/.sandpiper_owners";

/** Exit code of a command that an owner was not allowed to start any more. */
export const fencedExitCode = 125;

/**
 * Shell text that ends the shell with `fencedExitCode` when the sandbox has seen a higher epoch of
 * the key. It forks only for the first command of a sandbox. Whoever passes has shown its epoch
 * before it looked: of two owners at once, the lower one sees the higher one, or has come first.
 */
export function toFenceScript({ key, epoch }: Fence, busybox: string): string {
  const path = `${folder}/${key}`;
  return `[ -d ${folder} ] || ${busybox} mkdir -p -m 700 ${folder}
[ -e ${path}.${epoch} ] || : >${path}.${epoch}
for file in ${path}.*; do
[ "\${file##*.}" -le ${epoch} ] || { echo "The command was not run: another server owns its conversation now." >&2; exit ${fencedExitCode}; }
done
unset file
`;
}

/** The command behind its fence, for drivers that start a process with an argv. */
export function toFencedArgv({ argv, fence }: ExecRequest, shell: string[]): string[] {
  if (!fence) return argv;
  checkFence(fence);
  const busybox = shell.length > 1 ? shell[0]! : "";
  return [...shell, "-c", `${toFenceScript(fence, busybox)}exec "$@"`, "sh", ...argv];
}

/** Throws for a key or epoch that is no plain word. */
export function checkFence({ key, epoch }: Fence): void {
  if (!/^\w{1,64}$/.test(key) || !Number.isSafeInteger(epoch) || epoch < 0)
    throw new TypeError("a fence needs a key of word characters and a whole epoch");
}
