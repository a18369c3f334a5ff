import { readFileSync } from "node:fs";
import { kill } from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import type { ProcessGroup } from "./process-group.ts";

/** How long processes may take to end by themselves, ms. */
const graceMs = 1_000;
const lookEveryMs = 5;
const roundsToAsk = 20;

const sigterm = 1n << 14n;

/**
 * Ends the processes of a sandbox in order, also of a frozen one: first they are asked, then they are killed.
 * Gives false when some are still there. With `init`, the first process is one that only reaps and waits for nothing.
 */
export async function stopGroup(group: ProcessGroup, init: boolean): Promise<boolean> {
  if (group.state() === "gone") return true;
  const waits = new Set<number>();
  const asked = new Map<number, NodeJS.Signals>();
  const askAll = () => {
    for (const pid of group.members()) {
      const { first, ignoresTerm } = factsOf(pid);
      // An interactive shell ignores SIGTERM and goes by the end of its terminal.
      const signal = ignoresTerm ? "SIGHUP" : "SIGTERM";
      if (first && init) waits.add(pid);
      else if (!asked.has(pid) || (ignoresTerm && asked.get(pid) !== signal)) ask(pid, signal);
      asked.set(pid, signal);
    }
  };
  askAll();
  group.thaw();
  const end = Date.now() + graceMs;
  for (let round = 1; Date.now() < end && group.members().some((pid) => !waits.has(pid)); round++) {
    await delay(lookEveryMs);
    // Some have only just come to ignore it, or to be.
    if (round % roundsToAsk === 0) askAll();
  }
  return group.kill();
}

function ask(pid: number, signal: NodeJS.Signals): void {
  try {
    kill(pid, signal);
    // One that is stopped hears of it once it goes on.
    kill(pid, "SIGCONT");
  } catch {
    // It has just ended.
  }
}

/** Whether a process is the first one of its sandbox, and whether it ignores SIGTERM. */
function factsOf(pid: number): { first: boolean; ignoresTerm: boolean } {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const ignored = BigInt(`0x${/^SigIgn:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
    return { first: /^NSpid:.*\s1$/m.test(status), ignoresTerm: (ignored & sigterm) !== 0n };
  } catch {
    return { first: false, ignoresTerm: false };
  }
}
