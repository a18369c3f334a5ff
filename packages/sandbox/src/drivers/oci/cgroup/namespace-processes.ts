import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { SandboxLimits } from "../../../driver.ts";
import { limitProcess } from "../../../kernel/limits.ts";
import { isAlive, isStopped, listPids, readStatFields, sendSignal } from "../../common/processes.ts";
import { openRuntimeDir } from "../storage/runtime-dir.ts";
import { getInstallationGroup } from "./cgroups.ts";
import { FirstProcesses } from "./first-processes.ts";
import type { GroupUsage, ProcessGroup, ProcessGroups } from "./process-groups.ts";

const freezeTimeoutMs = 5_000;
const killTimeoutMs = 5_000;
/** A single look may miss a child that a process started just before it stopped. */
const quietLooks = 2;
const tickMs = 10;

const sweepIntervalMs = 5;
const maxSweeps = 200;

/**
 * Each user in a sandbox may have its limit of processes. More than this many times the limit have
 * outrun it, or belong to many users.
 */
const maxUsers = 4;

/** Before Linux 5.14 RLIMIT_NPROC counts the processes of all sandboxes together. */
const [major, minor] = release().split(".").map(Number);
const countsBySandbox = major! > 5 || (major === 5 && minor! >= 14);

/**
 * Process groups for a server that may not create control groups: a sandbox's processes are those
 * of its process id namespace. Limits apply to single processes, not to the sandbox as a whole.
 */
export class NamespaceGroups implements ProcessGroups {
  readonly name: string;
  readonly #folder: string;
  readonly #first: FirstProcesses;

  /** `dir` is the installation's folder, which exists. Throws SandboxFailed without a tmpfs. */
  constructor(dir: string) {
    this.name = basename(getInstallationGroup(dir));
    const folder = openRuntimeDir(`${this.name}-run`);
    this.#folder = join(folder, "groups");
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#first = new FirstProcesses(this.#folder, join(folder, "boxes"));
  }

  get(id: string): ProcessGroup {
    return new NamespaceGroup(id, this.#folder, this.#first);
  }

  names(): string[] {
    return [...new Set(readdirSync(this.#folder).map((name) => name.replace(/\.\w+$/, "")))];
  }

  mayRun(): (id: string) => boolean {
    return () => true;
  }

  expectStart(): void {}

  runtimeArgs(kind: "crun" | "runc"): string[] {
    return kind === "crun" ? ["--cgroup-manager=disabled"] : ["--rootless=true"];
  }

  runArgs(id: string): string[] {
    return ["--pid-file", this.#first.pidFile(id)];
  }

  linuxSection(): object {
    return {};
  }

  removeAll(): void {}
}

/**
 * The processes of one process id namespace. A frozen one has a file `<id>.paused` with the ids of
 * the processes that were already stopped before.
 */
class NamespaceGroup implements ProcessGroup {
  readonly carriesLimits = false;
  readonly #id: string;
  readonly #first: FirstProcesses;
  readonly #pausedFile: string;

  constructor(id: string, folder: string, first: FirstProcesses) {
    this.#id = id;
    this.#first = first;
    this.#pausedFile = join(folder, `${id}.paused`);
  }

  state(): "running" | "paused" | "gone" {
    if (this.member() === undefined) return "gone";
    return this.#stoppedBefore() ? "paused" : "running";
  }

  members(): number[] {
    const namespace = this.#namespace();
    return namespace === undefined ? [] : listMembers(namespace);
  }

  member(): number | undefined {
    return this.#first.get(this.#id);
  }

  has(pid: number): boolean {
    const namespace = this.#namespace();
    return namespace !== undefined && getNamespace(pid) === namespace;
  }

  admit(pid: number, limits: SandboxLimits): void {
    applyLimits(pid, limits);
    // It may have started children before; look again until no process is without limits.
    const sweep = async () => {
      for (let rounds = 0; rounds < maxSweeps; rounds++) {
        await delay(sweepIntervalMs);
        const members = this.members();
        if (members.length > maxUsers * limits.pids) return void (await this.kill());
        if (members.filter((one) => applyLimits(one, limits)).length === 0) return;
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
      writeFileSync(this.#pausedFile, this.members().filter(isStopped).join(" "), { mode: 0o600 });
    const end = Date.now() + freezeTimeoutMs;
    for (let quiet = 0; Date.now() < end; ) {
      const moving = this.members().filter((pid) => !isStopped(pid));
      if (this.state() === "gone") return false;
      for (const pid of moving) sendSignal(pid, "SIGSTOP");
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
    // The file goes last, so that a group can be thawed again after a crash in between.
    for (const pid of this.members()) if (!before.has(pid)) sendSignal(pid, "SIGCONT");
    rmSync(this.#pausedFile, { force: true });
  }

  async kill(check = () => {}): Promise<boolean> {
    const end = Date.now() + killTimeoutMs;
    check();
    const first = this.#first.search(this.#id);
    const namespace = first === undefined ? undefined : getNamespace(first);
    if (first === undefined || namespace === undefined) return true;
    // The kernel kills all others with the first process.
    sendSignal(first, "SIGKILL");
    while (this.member() !== undefined || listMembers(namespace).length > 0) {
      if (Date.now() > end) return false;
      await delay(1);
    }
    return true;
  }

  usage(): GroupUsage {
    const all = this.members().map(processUsage);
    const sum = (key: keyof GroupUsage) => all.reduce((total, one) => total + one[key], 0);
    return { memoryBytes: sum("memoryBytes"), cpuMs: sum("cpuMs"), pids: sum("pids") };
  }

  remove(): void {
    this.#first.forget(this.#id);
    rmSync(this.#pausedFile, { force: true });
  }

  #namespace(): number | undefined {
    const first = this.member();
    return first === undefined ? undefined : getNamespace(first);
  }

  /** Undefined when the group is not frozen. */
  #stoppedBefore(): Set<number> | undefined {
    try {
      return new Set(readFileSync(this.#pausedFile, "latin1").split(" ").map(Number));
    } catch {
      return undefined;
    }
  }
}

/** The live processes of a process id namespace. */
function listMembers(namespace: number): number[] {
  return listPids().filter((pid) => getNamespace(pid) === namespace && isAlive(pid));
}

/** Number of a process's id namespace; undefined when it has ended or belongs to another user. */
function getNamespace(pid: number): number | undefined {
  try {
    return statSync(`/proc/${pid}/ns/pid`).ino;
  } catch {
    return undefined;
  }
}

/**
 * Gives each process the memory limit of the sandbox, and limits the processes of each user in it.
 * The runtime cannot do this: its limit would count the server's own processes. True when the
 * process had no such limit before.
 */
function applyLimits(pid: number, { memoryBytes, pids }: SandboxLimits): boolean {
  limitProcess(pid, "RLIMIT_DATA", memoryBytes);
  return countsBySandbox && limitProcess(pid, "RLIMIT_NPROC", pids);
}

/** Usage of one process, with the CPU time of the children that it has waited for. */
function processUsage(pid: number): GroupUsage {
  try {
    const fields = readStatFields(pid);
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    // Proportional shares, so that memory shared by several processes counts once.
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "latin1");
    const kilobytes = Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0);
    return { memoryBytes: kilobytes * 1_024, cpuMs: ticks * tickMs, pids: Number(fields[17]) };
  } catch {
    return { memoryBytes: 0, cpuMs: 0, pids: 0 };
  }
}
