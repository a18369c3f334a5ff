import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { SandboxLimits } from "../../../driver.ts";
import { toCpuQuota } from "../../common/isolation.ts";
import { limitProcesses } from "../../common/process-share.ts";
import { sendSignal } from "../../common/processes.ts";
import type { GroupUsage, ProcessGroup, ProcessGroups } from "./process-groups.ts";

const mount = "/sys/fs/cgroup";
const freezeTimeoutMs = 5_000;
const killTimeoutMs = 5_000;

/** How control groups are mounted. `hybrid` is v1 with a visible v2 tree in `unified`. */
export type CgroupLayout = "v1" | "v2" | "hybrid" | "none";

export function detectCgroupLayout(): CgroupLayout {
  if (isV2()) return "v2";
  if (!existsSync(`${mount}/freezer`) && !existsSync(`${mount}/memory`)) return "none";
  return existsSync(`${mount}/unified/cgroup.procs`) ? "hybrid" : "v1";
}

/** Path below the mount of the control group of an installation with the folder `dir`. */
export function getInstallationGroup(dir: string): string {
  return `/sandpiper-${createHash("sha256").update(realpathSync(dir)).digest("hex").slice(0, 12)}`;
}

/** Host ids of the processes of a control group (path below the mount). */
export function listGroupMembers(path: string): number[] {
  try {
    return readFileSync(`${stateFolder(path)}/cgroup.procs`, "latin1")
      .split("\n")
      .filter(Boolean)
      .map(Number);
  } catch {
    return [];
  }
}

/** Process groups as control groups, which the runtime creates below that of the installation. */
export class Cgroups implements ProcessGroups {
  readonly name: string;
  readonly #path: string;
  #warming: Promise<void> | undefined;

  /** `dir` is the installation's folder, which exists. */
  constructor(dir: string) {
    this.#path = getInstallationGroup(dir);
    this.name = basename(this.#path);
    limitProcesses(this.#path);
  }

  get(id: string): ProcessGroup {
    return new Cgroup(`${this.#path}/${id}`);
  }

  /** Includes groups that only some controllers still have. */
  names(): string[] {
    const names = new Set<string>();
    for (const folder of controllerFolders(this.#path))
      for (const name of listFolders(folder)) names.add(name);
    return [...names];
  }

  mayRun(): (id: string) => boolean {
    const active = new Set(listFolders(stateFolder(this.#path)));
    return (id) => active.has(id);
  }

  expectStart(id: string, limits: SandboxLimits): void {
    if (!isV2()) limitSockets(`${this.#path}/${id}`, limits);
    this.#warming ??= warmMoves().finally(() => {
      this.#warming = undefined;
    });
  }

  runtimeArgs(): string[] {
    return [];
  }

  runArgs(): string[] {
    return [];
  }

  linuxSection(id: string, { memoryBytes, pids, cpus }: SandboxLimits): object {
    return {
      cgroupsPath: `${this.#path}/${id}`,
      resources: {
        devices: [{ allow: false, access: "rwm" }],
        memory: { limit: memoryBytes, swap: memoryBytes },
        pids: { limit: pids },
        cpu: toCpuQuota(cpus),
      },
    };
  }

  removeAll(): void {
    removeGroup(this.#path);
  }
}

class Cgroup implements ProcessGroup {
  readonly carriesLimits = true;
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  state(): "running" | "paused" | "gone" {
    const folder = stateFolder(this.#path);
    try {
      if (readFileSync(`${folder}/cgroup.procs`, "latin1") === "") return "gone";
      const frozen = readFileSync(`${folder}/${isV2() ? "cgroup.freeze" : "freezer.state"}`, "latin1");
      return /^(1|FROZEN|FREEZING)/.test(frozen) ? "paused" : "running";
    } catch {
      return "gone";
    }
  }

  members(): number[] {
    return listGroupMembers(this.#path);
  }

  member(): number | undefined {
    return this.members()[0];
  }

  has(pid: number): boolean {
    return this.members().includes(pid);
  }

  admit(): void {}

  async setFrozen(frozen: boolean): Promise<boolean> {
    const end = Date.now() + freezeTimeoutMs;
    for (let round = 0; Date.now() < end; round++) {
      try {
        // Repeated, because v1 gives up when a process forks at the wrong moment.
        this.#writeFrozen(frozen);
        if (this.#isFrozen() === frozen) return true;
      } catch {
        return false;
      }
      // It is nearly always done at once.
      await (round < 3 ? new Promise((resolve) => setImmediate(resolve)) : delay(1));
      // A thread in execve waits for its siblings to end, which they cannot while they are frozen.
      if (frozen && round % 20 === 19) {
        this.thaw();
        await delay(2);
      }
    }
    return false;
  }

  thaw(): void {
    try {
      this.#writeFrozen(false);
    } catch {
      // The group has just ended.
    }
  }

  async kill(check = () => {}): Promise<boolean> {
    const end = Date.now() + killTimeoutMs;
    while (this.state() !== "gone") {
      if (Date.now() > end) return false;
      check();
      for (const pid of this.members()) sendSignal(pid, "SIGKILL");
      // A frozen process handles the signal, and nothing else, once it is thawed.
      this.thaw();
      await delay(1);
    }
    return true;
  }

  usage(): GroupUsage {
    const read = (file: string) => readNumber(`${mount}${file}`);
    const path = this.#path;
    if (!isV2())
      return {
        memoryBytes: read(`/memory${path}/memory.usage_in_bytes`),
        cpuMs: read(`/cpuacct${path}/cpuacct.usage`) / 1e6,
        pids: read(`/pids${path}/pids.current`),
      };
    return {
      memoryBytes: read(`${path}/memory.current`),
      cpuMs: readNumber(`${mount}${path}/cpu.stat`, /^usage_usec (\d+)/m) / 1_000,
      pids: read(`${path}/pids.current`),
    };
  }

  remove(): void {
    removeGroup(this.#path);
  }

  #writeFrozen(frozen: boolean): void {
    if (isV2()) writeFileSync(`${mount}${this.#path}/cgroup.freeze`, frozen ? "1" : "0");
    else writeFileSync(`${mount}/freezer${this.#path}/freezer.state`, frozen ? "FROZEN" : "THAWED");
  }

  /** Undefined during the transition. */
  #isFrozen(): boolean | undefined {
    if (isV2()) return /^frozen 1$/m.test(readFileSync(`${mount}${this.#path}/cgroup.events`, "latin1"));
    const state = readFileSync(`${mount}/freezer${this.#path}/freezer.state`, "latin1").trim();
    return state === "FROZEN" ? true : state === "THAWED" ? false : undefined;
  }
}

/** Share of a sandbox's memory that buffers of its sockets may take in addition. */
const socketShare = 0.25;

/**
 * Creates the group of a sandbox with a limit for the buffers of its TCP and UDP sockets, which
 * control groups of version 1 count apart, and only in sockets that were opened under a limit.
 */
function limitSockets(path: string, { memoryBytes }: SandboxLimits): void {
  const folder = `${mount}/memory${path}`;
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${folder}/memory.kmem.tcp.limit_in_bytes`, String(Math.floor(memoryBytes * socketShare)));
  } catch {
    // The kernel has no such limit.
  }
}

/** Zero when the file does not exist. */
function readNumber(path: string, pattern = /^(\d+)/): number {
  try {
    return Number(pattern.exec(readFileSync(path, "latin1"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/**
 * Moves this process into the group that it is in. After idle time the kernel delays the first move
 * by a grace period (10 ms and more); this takes that delay while the runtime still does other
 * work.
 */
async function warmMoves(): Promise<void> {
  try {
    const own = readFileSync("/proc/self/cgroup", "latin1");
    const path = (isV2() ? /^0::(.*)$/m : /^\d+:(?:[^:\n]*,)?freezer(?:,[^:\n]*)?:(.*)/m).exec(own)?.[1];
    if (path !== undefined) await writeFile(`${stateFolder(path)}/cgroup.procs`, String(process.pid));
  } catch {
    // Without the permission the runtime takes the delay itself.
  }
}

/** The folder that shows members and freezing. */
function stateFolder(path: string): string {
  return isV2() ? mount + path : `${mount}/freezer${path}`;
}

function isV2(): boolean {
  return existsSync(`${mount}/cgroup.controllers`);
}

function controllerFolders(path: string): string[] {
  if (isV2()) return [mount + path];
  // Controllers that share a folder have links to it.
  return [mount + path, ...listFolders(mount).map((name) => `${mount}/${name}${path}`)];
}

/** Names of the folders in a folder; none when it does not exist. */
function listFolders(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}

/**
 * Removes what a runtime leaves of a control group; groups with members stay. When the v2 tree is
 * hidden, crun takes its empty mount point for a tree and makes plain folders there.
 */
function removeGroup(path: string): void {
  if (detectCgroupLayout() === "v1") rmSync(`${mount}/unified${path}`, { recursive: true, force: true });
  for (const folder of controllerFolders(path)) {
    try {
      rmdirSync(folder);
    } catch {
      // It does not exist or has members.
    }
  }
}
