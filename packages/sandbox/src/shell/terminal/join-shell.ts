import { setTimeout as delay } from "node:timers/promises";
import type { Sandbox } from "../../sandbox.ts";
import { readCall } from "../held/held-call.ts";
import { readHeldState } from "../held/held-state.ts";
import { Capture } from "./capture.ts";
import { CommandInterrupted } from "./command-interrupted.ts";
import { openOverflowFile } from "./overflow-file.ts";
import type { Shell } from "./shell.ts";
import type { TerminalCall } from "./terminal-call.ts";

/** Time for an idle shell to begin a command that an earlier process has typed, ms. */
const joinDelayMs = 300;

interface Join {
  /** Of the held shell. */
  folder: string;
  open(): Promise<Shell>;
  call: TerminalCall | undefined;
  signal: AbortSignal;
}

/**
 * Opens a held shell. When it should have begun a repeated call and has not, it gets a moment for
 * it, in case it is about to.
 */
export async function joinShell(sandbox: Sandbox, { folder, open, call, signal }: Join): Promise<Shell> {
  const shell = await open();
  if (!shell.isJoined || !call?.isRepeated || shell.callId === call.id) return shell;
  await delay(joinDelayMs, undefined, { signal });
  if ((await readCall(sandbox, folder))?.id !== call.id) return shell;
  shell.leave();
  return open();
}

/** Throws CommandInterrupted unless the shell still lives in which a command was to run. */
export async function checkRepeatable(
  sandbox: Sandbox,
  { folder, id, outputDir }: { folder: string; id: string; outputDir: string },
): Promise<void> {
  const state = await readHeldState(sandbox, folder);
  if (state === "lives") return;
  const nothing = () => {};
  const capture = new Capture(() => openOverflowFile(sandbox, outputDir, nothing, nothing));
  if (state?.call?.id === id) capture.add(state.output);
  throw new CommandInterrupted(await capture.end());
}
