import type { Sandbox } from "../../sandbox.ts";
import { runToEnd } from "../run.ts";
import type { Shell } from "./shell.ts";

/** Minimum time for each key of an interrupt to work, ms. */
const interruptKeyTimeoutMs = 700;
/** Maximum time for all keys of an interrupt together, ms. */
const interruptTimeoutMs = 5_000;

/** Types the keys that end the running command. Returns false when the shell no longer works. */
export async function interruptCommand(sandbox: Sandbox, shell: Shell): Promise<boolean> {
  // A key before the shell has read the command makes the terminal drop the command without an end
  // marker. A slow host may take longer than this wait.
  await shell.wait({
    begin: true,
    signal: makeKeyDeadline(sandbox, AbortSignal.timeout(interruptTimeoutMs)),
  });
  const limit = AbortSignal.timeout(interruptTimeoutMs);
  for (const key of ["\x03", "\x03", "\x1c"]) {
    shell.send(key);
    const waited = await shell.wait({ signal: makeKeyDeadline(sandbox, limit) });
    if (waited === "aborted" && shell.started) continue;
    await shell.take();
    return absorbKeys(sandbox, shell);
  }
  return false;
}

/**
 * Runs empty commands until the shell runs one to its end. On a slow host, a key can act after the
 * command has ended, and would make the shell drop the next command. Returns false when the shell
 * runs none.
 */
async function absorbKeys(sandbox: Sandbox, shell: Shell): Promise<boolean> {
  const { exitCode } = shell.status;
  const limit = AbortSignal.timeout(interruptTimeoutMs);
  while (!shell.ended && !shell.isLost && !limit.aborted) {
    shell.start(":");
    const waited = await shell.wait({ signal: makeKeyDeadline(sandbox, limit) });
    await shell.take();
    if (waited === "aborted") shell.send("\x03");
    if (waited !== "ended" || shell.status.exitCode !== 0) continue;
    shell.status = { ...shell.status, exitCode };
    return true;
  }
  return false;
}

/**
 * Aborts when a cooperative program would have ended. A killed shell loses the user's variables, so
 * a busy host gets more time: twice the duration of a trivial command, at most until `limit`.
 */
function makeKeyDeadline(sandbox: Sandbox, limit: AbortSignal): AbortSignal {
  const over = new AbortController();
  const began = performance.now();
  runToEnd(sandbox, { argv: ["/bin/sh", "-c", ":"] }, { signal: limit })
    .catch(() => {})
    .then(() => {
      const took = performance.now() - began;
      setTimeout(() => over.abort(), Math.max(interruptKeyTimeoutMs - took, took));
    });
  return AbortSignal.any([limit, over.signal]);
}
