import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import { nullDevice } from "../../../../kernel/null-device.ts";
import { ExecFiles } from "../exec-files.ts";
import { insideBusybox } from "./folders.ts";
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
  const child = spawn(argv[0]!, argv.slice(1), { stdio: [nullDevice(), nullDevice(), nullDevice(), "pipe"], detached: true });
  const channel = new ShellChannel(child.stdio[3] as unknown as Socket);
  const timer = setTimeout(() => child.kill("SIGKILL"), startMs);
  try {
    const [code] = await once(child, "exit");
    const pid = code === 0 ? await files.started : undefined;
    if (pid === undefined) {
      channel.end();
      return undefined;
    }
    const shell = new ResidentShell(channel, pid, place);
    return (await shell.greet()) ? shell : undefined;
  } finally {
    clearTimeout(timer);
    files.finish();
  }
}
