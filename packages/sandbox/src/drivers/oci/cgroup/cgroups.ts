import { createHash } from "node:crypto";
import {
  type Dirent,
  existsSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { writeFile } from "node:fs/promises";
import { kill } from "node:process";
import { setTimeout as delay } from "node:timers/promises";

const mount = "/sys/fs/cgroup";

/** How control groups are mounted here. `hybrid` is v1 with the v2 tree visible beside it. */
export type CgroupLayout = "v1" | "v2" | "hybrid" | "none";

export function cgroupLayout(): CgroupLayout {
  if (isV2()) return "v2";
  if (!existsSync(`${mount}/freezer`) && !existsSync(`${mount}/memory`)) return "none";
  return existsSync(`${mount}/unified/cgroup.procs`) ? "hybrid" : "v1";
}

/** Control group of the installation that keeps its sandboxes in `dir`: two of them on one machine do not see each other's. */
export function installationGroup(dir: string): string {
  return `/sandpiper-${createHash("sha256").update(realpathSync(dir)).digest("hex").slice(0, 12)}`;
}

/** State of a sandbox's processes by its control group (path below the mount, with a leading slash). Two small reads, no process. */
export function groupState(path: string): "running" | "paused" | "gone" {
  const folder = stateFolder(path);
  try {
    if (readFileSync(`${folder}/cgroup.procs`, "latin1") === "") return "gone";
    const frozen = readFileSync(`${folder}/${isV2() ? "cgroup.freeze" : "freezer.state"}`, "latin1");
    return /^(1|FROZEN|FREEZING)/.test(frozen) ? "paused" : "running";
  } catch {
    return "gone";
  }
}

/** Host ids of the processes of a control group. */
export function groupMembers(path: string): number[] {
  try {
    return readFileSync(`${stateFolder(path)}/cgroup.procs`, "latin1")
      .split("\n")
      .filter(Boolean)
      .map(Number);
  } catch {
    return [];
  }
}

/** Names of the groups below one, also of those that only some controller still has. */
export function groupChildren(path: string): string[] {
  const names = new Set<string>();
  for (const folder of controllerFolders(path)) {
    try {
      for (const entry of readdirSync(folder, { withFileTypes: true }))
        if (entry.isDirectory()) names.add(entry.name);
    } catch {
      // This controller has no such group.
    }
  }
  return [...names];
}

/** Names of the groups below one that may have processes. */
export function activeChildren(path: string): Set<string> {
  try {
    return new Set(readdirSync(stateFolder(path)));
  } catch {
    return new Set();
  }
}

/** How long every process of a group may take to freeze or to go on, ms. */
const freezePatienceMs = 5_000;

/** Freezes every process of a group, or lets them go on, and resolves once that is so. Gives false when it does not get there or the group goes. */
export async function setFrozen(path: string, frozen: boolean): Promise<boolean> {
  const end = Date.now() + freezePatienceMs;
  for (let round = 0; Date.now() < end; round++) {
    try {
      // Written again each time: v1 gives up on a group in which a process starts another one at the wrong moment.
      writeFrozen(path, frozen);
      if (isFrozen(path) === frozen) return true;
    } catch {
      return false;
    }
    // Nearly always it is done at once.
    await (round < 3 ? new Promise((resolve) => setImmediate(resolve)) : delay(1));
    // A thread that begins another program waits for the end of its siblings, which cannot end while they are frozen.
    if (frozen && round % 20 === 19) {
      thawGroup(path);
      await delay(2);
    }
  }
  return false;
}

function writeFrozen(path: string, frozen: boolean): void {
  if (isV2()) writeFileSync(`${mount}${path}/cgroup.freeze`, frozen ? "1" : "0");
  else writeFileSync(`${mount}/freezer${path}/freezer.state`, frozen ? "FROZEN" : "THAWED");
}

/** Undefined on the way between the two. */
function isFrozen(path: string): boolean | undefined {
  if (isV2()) return /^frozen 1$/m.test(readFileSync(`${mount}${path}/cgroup.events`, "latin1"));
  const state = readFileSync(`${mount}/freezer${path}/freezer.state`, "latin1").trim();
  return state === "FROZEN" ? true : state === "THAWED" ? false : undefined;
}

/**
 * Kills every process of a control group, also of a frozen one, and waits until they are gone.
 * Gives false when some are still there after `patienceMs`.
 */
export async function killGroup(path: string, patienceMs = 5_000): Promise<boolean> {
  const end = Date.now() + patienceMs;
  while (groupState(path) !== "gone") {
    if (Date.now() > end) return false;
    for (const pid of groupMembers(path)) killProcess(pid);
    thawGroup(path);
    await delay(1);
  }
  return true;
}

function killProcess(pid: number): void {
  try {
    kill(pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}

/** A frozen process takes signals only once it is thawed; killed before, it does nothing more. */
export function thawGroup(path: string): void {
  try {
    writeFrozen(path, false);
  } catch {
    // The group has just gone.
  }
}

export interface GroupUsage {
  memoryBytes: number;
  /** Since the group began. */
  cpuMs: number;
  pids: number;
}

/** What the processes of a group use; zeros for one that is not there. */
export function groupUsage(path: string): GroupUsage {
  if (isV2()) {
    const microseconds = Number(/^usage_usec (\d+)/m.exec(readText(`${mount}${path}/cpu.stat`))?.[1] ?? 0);
    return {
      memoryBytes: Number(readText(`${mount}${path}/memory.current`)),
      cpuMs: microseconds / 1_000,
      pids: Number(readText(`${mount}${path}/pids.current`)),
    };
  }
  return {
    memoryBytes: Number(readText(`${mount}/memory${path}/memory.usage_in_bytes`)),
    cpuMs: Number(readText(`${mount}/cpuacct${path}/cpuacct.usage`)) / 1e6,
    pids: Number(readText(`${mount}/pids${path}/pids.current`)),
  };
}

function readText(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "0";
  }
}

/**
 * Moves this process into the group that it is in. The kernel lets a first move after some idle time wait for a grace period (10 ms and more), and
 * the moves that come after it not; so this, begun together with a start, takes that time while the runtime is still at other work.
 */
export async function wakeMoves(): Promise<void> {
  try {
    const own = readFileSync("/proc/self/cgroup", "latin1");
    const path = (isV2() ? /^0::(.*)$/m : /^\d+:(?:.*,)?freezer(?:,.*)?:(.*)$/m).exec(own)?.[1];
    if (path !== undefined) await writeFile(`${stateFolder(path)}/cgroup.procs`, String(process.pid));
  } catch {
    // Not allowed here: the runtime waits itself.
  }
}

/** The folder that tells members and freezing. */
function stateFolder(path: string): string {
  return isV2() ? mount + path : `${mount}/freezer${path}`;
}

function isV2(): boolean {
  return existsSync(`${mount}/cgroup.controllers`);
}

/** Where a group may have a folder. */
function controllerFolders(path: string): string[] {
  if (isV2()) return [mount + path];
  const controllers: Dirent[] = readdirSync(mount, { withFileTypes: true });
  // Beside the controllers there are links, for those that share a folder.
  return [
    mount + path,
    ...controllers.filter((entry) => entry.isDirectory()).map(({ name }) => `${mount}/${name}${path}`),
  ];
}

/**
 * Removes what a runtime leaves of a control group: killed starts leave empty groups, and where the v2 tree is hidden crun takes the empty
 * mount point for one and makes a plain folder there. Groups that still have members stay.
 */
export function removeGroup(path: string): void {
  if (cgroupLayout() === "v1") rmSync(`${mount}/unified${path}`, { recursive: true, force: true });
  for (const folder of controllerFolders(path)) {
    try {
      rmdirSync(folder);
    } catch {
      // Not there, or in use.
    }
  }
}
