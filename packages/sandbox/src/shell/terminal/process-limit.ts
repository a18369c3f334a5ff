import { PlatformError } from "@sandpiper/core/errors";
import type { Sandbox } from "../../sandbox.ts";
import { runToEnd } from "../run.ts";

/** Number of processes that a new shell needs. */
const shellProcesses = 8;
/** Limit of the check, ms. */
const timeoutMs = 10_000;

/** What shells print when the kernel refuses them another process. */
const refusals = /fork: (?:retry: )?Resource temporarily unavailable|can(?:'t|not) fork/i;

/** Starts as many processes as a new shell needs, with `$0` as busybox. */
const script = `for i in ${Array.from({ length: shellProcesses }, (_, at) => at).join(" ")}; do "$0" usleep 1000 & done; wait`;

/** Whether the output of a command says that the sandbox's process limit is reached. */
export function tellsProcessLimit(output: string): boolean {
  return refusals.test(output);
}

/** Throws ProcessLimitReached when a sandbox has no room for the processes of a new shell. */
export async function checkProcessLimit(sandbox: Sandbox): Promise<void> {
  const [busybox, ...applet] = sandbox.shell ?? [];
  if (busybox === undefined || applet.length === 0) return;
  const argv = [busybox, ...applet, "-c", script, busybox];
  const { stderr } = await runToEnd(sandbox, { argv, cwd: "/" }, { timeoutMs });
  if (!tellsProcessLimit(stderr.toString())) return;
  throw new PlatformError("ProcessLimitReached", { pids: sandbox.spec.limits.pids });
}
