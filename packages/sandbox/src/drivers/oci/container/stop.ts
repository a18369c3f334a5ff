import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { readStatFields, sendSignal } from "../../common/processes.ts";
import type { ProcessGroup } from "../cgroup/process-groups.ts";

/** Time for processes to end by themselves, ms. */
const graceMs = 1_000;
const pollMs = 5;
const roundsPerRequest = 20;

const sigtermBit = 1n << 14n;

/**
 * Ends the processes of a sandbox, also of a frozen one: requests their end, then kills them. With
 * `hasInit` the first process only reaps and is not waited for. False when some are left. Calls
 * `check` before each attempt, and throws what it throws.
 */
export async function stopGroup(
  group: ProcessGroup,
  { hasInit, check }: { hasInit: boolean; check: () => void },
): Promise<boolean> {
  if (group.state() === "gone") return true;
  const inits = new Set<number>();
  const asked = new Set<number>();
  const requestEnd = () => {
    check();
    for (const pid of group.members()) {
      const { isFirst, ignoresTerm, onTerminal } = inspectProcess(pid);
      if (isFirst && hasInit) inits.add(pid);
      // An interactive shell ignores SIGTERM and ends by SIGHUP; a starting one may lose either.
      else if (ignoresTerm || (onTerminal && asked.has(pid))) signalAndResume(pid, "SIGHUP");
      else if (!asked.has(pid)) signalAndResume(pid, "SIGTERM");
      asked.add(pid);
    }
  };
  requestEnd();
  group.thaw();
  const end = Date.now() + graceMs;
  for (let round = 1; Date.now() < end && group.members().some((pid) => !inits.has(pid)); round++) {
    await delay(pollMs);
    // Processes may be new or may ignore SIGTERM only now.
    if (round % roundsPerRequest === 0) requestEnd();
  }
  return group.kill(check);
}

/** A stopped process handles the signal only when it continues. */
function signalAndResume(pid: number, signal: NodeJS.Signals): void {
  if (sendSignal(pid, signal)) sendSignal(pid, "SIGCONT");
}

function inspectProcess(pid: number): { isFirst: boolean; ignoresTerm: boolean; onTerminal: boolean } {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const ignored = BigInt(`0x${/^SigIgn:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
    const onTerminal = Number(readStatFields(pid)[4]) !== 0;
    return { isFirst: /^NSpid:.*\s1$/m.test(status), ignoresTerm: (ignored & sigtermBit) !== 0n, onTerminal };
  } catch {
    return { isFirst: false, ignoresTerm: false, onTerminal: false };
  }
}
