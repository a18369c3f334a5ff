import type { Sandbox } from "../../sandbox.ts";
import { TerminalCleaner } from "../terminal/cleaner.ts";
import { MarkerScanner } from "../terminal/markers.ts";
import { type HeldCall, readCall } from "./held-call.ts";
import { runScript } from "./held-shell.ts";
import { deadScript, historyScript, livingScript } from "./scripts.ts";

/** The last command of a held shell that has ended, and its output. */
export interface DeadShell {
  /** The last command; undefined when the shell has begun none. */
  call: HeldCall | undefined;
  /** The output of the last command, as plain text. */
  output: string;
}

/**
 * Looks at the held shell of a folder without joining the shell. Returns undefined when the folder
 * is missing. Throws what `exec` throws.
 */
export async function readHeldState(
  sandbox: Sandbox,
  folder: string,
): Promise<"lives" | DeadShell | undefined> {
  if (!sandbox.shell) return undefined;
  const { code, stdout } = await runScript(sandbox, deadScript, [folder]);
  const nonce = /^([0-9a-f]+)\n$/.exec(stdout.toString())?.[1];
  if (nonce === undefined) return code === 0 ? "lives" : undefined;
  const call = await readCall(sandbox, folder);
  if (!call) return { call, output: "" };
  const history = (await runScript(sandbox, historyScript, [folder])).stdout;
  const start = history.lastIndexOf(`${nonce}:S${call.number}:`);
  const cleaner = new TerminalCleaner();
  const texts = new MarkerScanner(nonce)
    .push(history.subarray(Math.max(0, start)))
    .map((part) => (Buffer.isBuffer(part) ? cleaner.push(part) : ""));
  return { call, output: texts.join("") + cleaner.flush() };
}

/**
 * Returns the names of the state folders in a folder whose held shells live, the one whose last
 * command began first before the others. Throws what `exec` throws.
 */
export async function listHeldShells(sandbox: Sandbox, folder: string): Promise<string[]> {
  if (!sandbox.shell) return [];
  const { stdout } = await runScript(sandbox, livingScript, [folder]);
  return stdout.toString().split("\n").filter(Boolean);
}
