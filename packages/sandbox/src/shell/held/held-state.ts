import type { Sandbox } from "../../sandbox.ts";
import { TerminalCleaner } from "../terminal/cleaner.ts";
import { MarkerScanner } from "../terminal/markers.ts";
import { type HeldCall, readCall } from "./held-call.ts";
import { runScript } from "./held-shell.ts";
import { deadScript, historyScript } from "./scripts.ts";

/** What is left of a held shell whose processes have ended. */
export interface DeadShell {
  /** Its last command. */
  call: HeldCall | undefined;
  /** What that printed, as plain text. */
  output: string;
}

/**
 * Looks at the held shell of a folder without joining it. Undefined when there is no folder of one.
 * Throws what `exec` throws.
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
