import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { kill } from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import type { SandboxLimits } from "../../../driver.ts";
import { limitProcess } from "../../../kernel/limits.ts";
import { isAlive, isStill, statFields } from "../../common/process-stat.ts";
import type { FirstProcesses } from "../container/first-process.ts";
import type { GroupUsage, ProcessGroup } from "./process-group.ts";

/** How long every process may take to stop, ms. */
const freezePatienceMs = 5_000;
/** One look may miss what a process that was about to stop had just started. */
const quietLooks = 2;
const tickMs = 10;

const sweepEveryMs = 5;
const mostSweeps = 200;

/** Before Linux 5.14 the kernel counts the processes of all sandboxes together. */
const [major, minor] = release().split(".").map(Number);
const countsBySandbox = major! > 5 || (major === 5 && minor! >= 14);

/**
 * The processes of one process id namespace. A frozen one has a file `<id>.paused`, with the ids of processes that had been stopped before.
 */
export class NamespaceGroup implements ProcessGroup {
  readonly #id: string;
  readonly #first: FirstProcesses;
  readonly #mark: string;

  constructor(id: string, folder: string, first: FirstProcesses) {
    this.#id = id;
    this.#first = first;
    this.#mark = join(folder, `${id}.paused`);
  }

  state(): "running" | "paused" | "gone" {
    if (this.#first.of(this.#id) === undefined) return "gone";
    return this.#stoppedBefore() ? "paused" : "running";
  }

  members(): number[] {
    const space = this.#space();
    return space === undefined ? [] : membersOf(space);
  }

  member(): number | undefined {
    return this.#first.of(this.#id);
  }

  has(pid: number): boolean {
    const space = this.#space();
    return space !== undefined && spaceOf(pid) === space;
  }

  admit(pid: number, limits: SandboxLimits): void {
    limit(pid, limits);
    // What it had started before is found by looking again, until nothing is.
    const sweep = async () => {
      for (let rounds = 0; rounds < mostSweeps; rounds++) {
        await delay(sweepEveryMs);
        if (!this.members().some((one) => limit(one, limits))) return;
      }
    };
    void sweep();
  }

  async setFrozen(frozen: boolean): Promise<boolean> {
    if (this.state() === "gone") return false;
    if (!frozen) {
      this.thaw();
      return true;
    }
    if (!this.#stoppedBefore())
      writeFileSync(this.#mark, this.members().filter(isStill).join(" "), { mode: 0o600 });
    const end = Date.now() + freezePatienceMs;
    for (let quiet = 0; Date.now() < end; ) {
      const moving = this.members().filter((pid) => !isStill(pid));
      if (this.state() === "gone") return false;
      for (const pid of moving) send(pid, "SIGSTOP");
      quiet = moving.length === 0 ? quiet + 1 : 0;
      if (quiet === quietLooks) return true;
      if (moving.length > 0) await delay(1);
    }
    this.thaw();
    return false;
  }

  thaw(): void {
    const before = this.#stoppedBefore();
    if (!before) return;
    // The mark goes last: a kill in between leaves a group that can be thawed again.
    for (const pid of this.members()) if (!before.has(pid)) send(pid, "SIGCONT");
    rmSync(this.#mark, { force: true });
  }

  async kill(patienceMs = 5_000): Promise<boolean> {
    const end = Date.now() + patienceMs;
    const first = this.#first.search(this.#id);
    const space = first === undefined ? undefined : spaceOf(first);
    if (first === undefined || space === undefined) return true;
    // With the first process the kernel kills all others.
    send(first, "SIGKILL");
    while (this.#first.of(this.#id) !== undefined || membersOf(space).length > 0) {
      if (Date.now() > end) return false;
      await delay(1);
    }
    return true;
  }

  usage(): GroupUsage {
    const all = this.members().map(usageOf);
    const sum = (key: keyof GroupUsage) => all.reduce((total, one) => total + one[key], 0);
    return { memoryBytes: sum("memoryBytes"), cpuMs: sum("cpuMs"), pids: sum("pids") };
  }

  remove(): void {
    this.#first.forget(this.#id);
    rmSync(this.#mark, { force: true });
  }

  #space(): number | undefined {
    const first = this.#first.of(this.#id);
    return first === undefined ? undefined : spaceOf(first);
  }

  /** Undefined for a group that is not frozen. */
  #stoppedBefore(): Set<number> | undefined {
    try {
      return new Set(readFileSync(this.#mark, "latin1").split(" ").map(Number));
    } catch {
      return undefined;
    }
  }
}

/** The processes of a process id namespace that are alive. */
function membersOf(space: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => spaceOf(pid) === space && isAlive(pid));
}

/** Number of the process id namespace that a process is in; undefined when it has ended or is none of ours. */
function spaceOf(pid: number): number | undefined {
  try {
    return statSync(`/proc/${pid}/ns/pid`).ino;
  } catch {
    return undefined;
  }
}

/**
 * What a process may have of memory is what the sandbox may have; processes are counted for each user of each sandbox. Gives whether it was not
 * limited before. The runtime could not do it: it would count the server's own processes.
 */
function limit(pid: number, { memoryBytes, pids }: SandboxLimits): boolean {
  limitProcess(pid, "RLIMIT_DATA", memoryBytes);
  return countsBySandbox && limitProcess(pid, "RLIMIT_NPROC", pids);
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    kill(pid, signal);
  } catch {
    // It has just ended.
  }
}

/** Of one process, with the processor time of the children that it has waited for. */
function usageOf(pid: number): GroupUsage {
  try {
    const fields = statFields(pid);
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    // Shares of memory that several processes have: a plain sum would count it many times.
    const kilobytes = Number(
      /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "latin1"))?.[1] ?? 0,
    );
    return { memoryBytes: kilobytes * 1_024, cpuMs: ticks * tickMs, pids: Number(fields[17]) };
  } catch {
    return { memoryBytes: 0, cpuMs: 0, pids: 0 };
  }
}
