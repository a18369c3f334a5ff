import { readFileSync } from "node:fs";
import { kill } from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { statFields } from "../../common/process-stat.ts";
import type { ProcessGroup } from "../cgroup/process-group.ts";

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
  const asked = new Set<number>();
  const askAll = () => {
    for (const pid of group.members()) {
      const { first, ignoresTerm, onTerminal } = factsOf(pid);
      if (first && init) waits.add(pid);
      // An interactive shell ignores SIGTERM and goes by the end of its terminal; one that is just beginning may lose either, so it is told again.
      else if (ignoresTerm || (onTerminal && asked.has(pid))) ask(pid, "SIGHUP");
      else if (!asked.has(pid)) ask(pid, "SIGTERM");
      asked.add(pid);
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

/** Whether a process is the first one of its sandbox, ignores SIGTERM, and has a terminal. */
function factsOf(pid: number): { first: boolean; ignoresTerm: boolean; onTerminal: boolean } {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const ignored = BigInt(`0x${/^SigIgn:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
    const onTerminal = Number(statFields(pid)[4]) !== 0;
    return { first: /^NSpid:.*\s1$/m.test(status), ignoresTerm: (ignored & sigterm) !== 0n, onTerminal };
  } catch {
    return { first: false, ignoresTerm: false, onTerminal: false };
  }
}
