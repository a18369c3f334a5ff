import { spawnPiped } from "../../../kernel/spawn.ts";
import { insideBusybox } from "../../common/busybox.ts";
import { sendSignal } from "../../common/processes.ts";
import type { ProcessConfig } from "../container/config.ts";
import { ExecFiles, type ExecPlace } from "../container/exec-files.ts";
import { ShellChannel } from "./shell-channel.ts";
import { type ShellTarget, WarmShell } from "./warm-shell.ts";

/** Wait for the runtime to start a shell, ms. */
const startTimeoutMs = 10_000;

/** A shell that reads its input from descriptor 3 and answers there. */
export const shellArgv = [insideBusybox, "sh", "-c", `exec ${insideBusybox} sh <&3`];

/**
 * Starts a warm shell; undefined when it does not come up. `process` is its process file, `command`
 * returns the runtime's argv (`exec --detach --preserve-fds 1 …`) for the two files.
 */
export async function startShell(
  place: ExecPlace,
  process: ProcessConfig,
  command: (files: ExecFiles) => string[],
  target: ShellTarget,
): Promise<WarmShell | undefined> {
  const files = new ExecFiles(place, process);
  const argv = command(files);
  let timer: NodeJS.Timeout | undefined;
  try {
    const child = spawnPiped({
      argv,
      oomScore: process.oomScoreAdj,
      descriptors: ["null", "null", "null", "both"],
    });
    files.begin(child.pid);
    const channel = new ShellChannel(child.pipes[3]!);
    // It also keeps this process alive: a command may wait for the shell.
    let runs = true;
    timer = setTimeout(() => runs && sendSignal(child.pid, "SIGKILL"), startTimeoutMs);
    const code = await child.exit;
    runs = false;
    const pid = code === 0 ? await files.started : undefined;
    if (pid === undefined) {
      channel.end();
      return undefined;
    }
    const shell = new WarmShell(channel, pid, target);
    return (await shell.greet()) ? shell : undefined;
  } finally {
    clearTimeout(timer);
    files.finish();
  }
}
