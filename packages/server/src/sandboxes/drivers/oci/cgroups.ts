import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
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

/**
 * Kills every process of a control group, also of a frozen one, and waits until they are gone.
 * Gives false when some are still there after `patienceMs`.
 */
export async function killGroup(path: string, patienceMs = 5_000): Promise<boolean> {
  const end = Date.now() + patienceMs;
  while (groupState(path) !== "gone") {
    if (Date.now() > end) return false;
    for (const pid of groupMembers(path)) signal(pid);
    thaw(path);
    await delay(1);
  }
  return true;
}

/** A frozen process dies only once it is thawed; killed before, it does nothing more. */
function thaw(path: string): void {
  const [file, text] = isV2() ? [`${mount}${path}/cgroup.freeze`, "0"] : [`${mount}/freezer${path}/freezer.state`, "THAWED"];
  try {
    writeFileSync(file, text);
  } catch {
    // The group has just gone.
  }
}

function signal(pid: number): void {
  try {
    kill(pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}

/** The folder that tells members and freezing. */
function stateFolder(path: string): string {
  return isV2() ? mount + path : `${mount}/freezer${path}`;
}

function isV2(): boolean {
  return existsSync(`${mount}/cgroup.controllers`);
}

/**
 * Removes what a runtime leaves of a control group: killed starts leave empty groups, and where the v2 tree is hidden crun takes the empty
 * mount point for one and makes a plain folder there. Groups that still have members stay.
 */
export function removeGroup(path: string): void {
  if (cgroupLayout() === "v1") rmSync(`${mount}/unified${path}`, { recursive: true, force: true });
  const folders = [mount + path];
  if (!isV2()) {
    for (const controller of readdirSync(mount)) folders.push(`${mount}/${controller}${path}`);
  }
  for (const folder of folders) {
    try {
      rmdirSync(folder);
    } catch {
      // Not there, or in use.
    }
  }
}
