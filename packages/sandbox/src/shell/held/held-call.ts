import type { Sandbox } from "../../sandbox.ts";
import { runScript } from "./held-shell.ts";
import { callScript } from "./scripts.ts";

/** The last command of a held shell, as the shell noted it when the command began. */
export interface HeldCall {
  number: number;
  id: string;
  isBash: boolean;
  text: string;
  /** Time since it began, ms. */
  ageMs: number;
}

/** Undefined when the shell has not begun any command. Throws what `exec` throws. */
export async function readCall(sandbox: Sandbox, folder: string): Promise<HeldCall | undefined> {
  const { stdout } = await runScript(sandbox, callScript, [folder]);
  const [, age, number, id, shell, text] =
    /^(\d+)\n(\d+) (\w+) (bash)?\n([\s\S]*)$/.exec(stdout.toString()) ?? [];
  if (number === undefined || id === undefined || text === undefined) return undefined;
  return {
    number: Number(number),
    id,
    isBash: shell === "bash",
    text,
    ageMs: Math.max(0, Number(age) * 1000),
  };
}
