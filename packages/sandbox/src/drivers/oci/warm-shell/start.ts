import { kill } from "node:process";
import { spawnPiped } from "../../../kernel/spawn.ts";
import { insideBusybox } from "../../common/folders.ts";
import { ExecFiles } from "../container/exec-files.ts";
import { ResidentShell, type ShellPlace } from "./shell.ts";
import { ShellChannel } from "./shell-channel.ts";

/** Time for the runtime to start a shell, ms. */
const startMs = 10_000;

/** argv of a shell that reads its input from descriptor 3, where it also answers. */
export const shellArgv = [insideBusybox, "sh", "-c", `exec ${insideBusybox} sh <&3`];

/**
 * Starts a resident shell. `process` is its process file, `command` gives the runtime's argv (`exec --detach --preserve-fds 1 …`) for the two files.
 * Gives undefined when it does not come up.
 */
export async function startShell(
  folder: string,
  process: object,
  command: (files: ExecFiles) => string[],
  place: ShellPlace,
): Promise<ResidentShell | undefined> {
  const files = new ExecFiles(folder, process);
  const argv = command(files);
  try {
    const child = spawnPiped({ argv, descriptors: ["null", "null", "null", "both"] });
    const channel = new ShellChannel(child.pipes[3]!);
    const timer = setTimeout(() => kill(child.pid, "SIGKILL"), startMs);
    const code = await child.exit;
    clearTimeout(timer);
    const pid = code === 0 ? await files.started : undefined;
    if (pid === undefined) {
      channel.end();
      return undefined;
    }
    const shell = new ResidentShell(channel, pid, place);
    return (await shell.greet()) ? shell : undefined;
  } finally {
    files.finish();
  }
}
