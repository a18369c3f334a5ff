import { setTimeout as delay } from "node:timers/promises";
import type { Sandbox } from "../../sandbox.ts";
import { readCall } from "../held/held-call.ts";
import { readHeldState } from "../held/held-state.ts";
import { Capture } from "./capture.ts";
import { CommandInterrupted } from "./command-interrupted.ts";
import { openOverflowFile } from "./overflow-file.ts";
import type { Shell } from "./shell.ts";
import type { TerminalCall } from "./terminal-call.ts";

/** Time for an idle shell to begin a command that the ended server has typed, ms. */
const joinDelayMs = 300;

interface Join {
  /** State folder of the held shell. */
  folder: string;
  open(): Promise<Shell>;
  call: TerminalCall | undefined;
  signal: AbortSignal;
}

/**
 * Opens a held shell. A shell that has not begun the command of a repeated call gets `joinDelayMs`
 * to begin it, because the ended server may have typed the command.
 */
export async function joinShell(sandbox: Sandbox, { folder, open, call, signal }: Join): Promise<Shell> {
  const shell = await open();
  if (!shell.isJoined || !call?.isRepeated || shell.callId === call.id) return shell;
  await delay(joinDelayMs, undefined, { signal });
  if ((await readCall(sandbox, folder))?.id !== call.id) return shell;
  shell.leave();
  return open();
}

/** Throws CommandInterrupted when the held shell of a repeated call has ended or is unknown. */
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
