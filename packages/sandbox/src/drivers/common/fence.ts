import type { ExecRequest, Fence } from "../../driver.ts";

/** Folder in the sandbox with an empty file `<key>.<epoch>` for each epoch that it has seen. */
const folder = "/tmp/.sandpiper_owners";

/** Exit code of a command that did not start because the sandbox has seen a higher epoch. */
export const fencedExitCode = 125;

/**
 * Shell text that ends the shell with `fencedExitCode` when the sandbox has seen a higher epoch of
 * the key. The text forks only for the first command of a sandbox. A command first writes the file
 * of its epoch, and then looks for higher epochs. So of two owners at the same time, the command of
 * the lower epoch either sees the higher epoch or starts before the other command.
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

/** Returns the argv of a command with its fence, for drivers that start a process with an argv. */
export function toFencedArgv({ argv, fence }: ExecRequest, shell: string[]): string[] {
  if (!fence) return argv;
  checkFence(fence);
  const busybox = shell.length > 1 ? shell[0]! : "";
  return [...shell, "-c", `${toFenceScript(fence, busybox)}exec "$@"`, "sh", ...argv];
}

/** Throws a TypeError for a key that is no plain word, and for an epoch that is no whole number. */
export function checkFence({ key, epoch }: Fence): void {
  if (!/^\w{1,64}$/.test(key) || !Number.isSafeInteger(epoch) || epoch < 0)
    throw new TypeError("a fence needs a key of word characters and a whole epoch");
}
