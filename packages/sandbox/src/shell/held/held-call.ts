import type { Sandbox } from "../../sandbox.ts";
import { runScript } from "./held-shell.ts";
import { begunScript, callScript, leftScript } from "./scripts.ts";

/** The last command of a held shell, as the shell noted it when the command began. */
export interface HeldCall {
  number: number;
  id: string;
  isBash: boolean;
  text: string;
  /** Time since the command began, ms. */
  ageMs: number;
  /** A call has left the command running. A later call may have reported its end. */
  wasLeft: boolean;
}

/** Notes that a call has left the command of an id running. Throws what `exec` throws. */
export async function noteLeft(sandbox: Sandbox, folder: string, id: string): Promise<void> {
  await runScript(sandbox, leftScript, [folder, id]);
}

/** Whether a held shell has begun the command of an id. Throws what `exec` throws. */
export async function hasBegun(sandbox: Sandbox, folder: string, id: string): Promise<boolean> {
  return (await runScript(sandbox, begunScript, [folder, id])).code === 0;
}

/** Reads the last command; undefined when the shell has begun none. Throws what `exec` throws. */
export async function readCall(sandbox: Sandbox, folder: string): Promise<HeldCall | undefined> {
  const { stdout } = await runScript(sandbox, callScript, [folder]);
  const [, age, left, number, id, shell, text] =
    /^(\d+)(?: (\w+))?\n(\d+) (\w+) (bash)?\n([\s\S]*)$/.exec(stdout.toString()) ?? [];
  if (number === undefined || id === undefined || text === undefined) return undefined;
  return {
    number: Number(number),
    id,
    isBash: shell === "bash",
    text,
    ageMs: Math.max(0, Number(age) * 1000),
    wasLeft: left === id,
  };
}
