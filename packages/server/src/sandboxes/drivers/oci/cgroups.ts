import { existsSync, readdirSync, readFileSync, rmdirSync } from "node:fs";

const mount = "/sys/fs/cgroup";

/** How control groups are mounted here. `hybrid` is v1 with the v2 tree visible beside it. */
export type CgroupLayout = "v1" | "v2" | "hybrid" | "none";

export function cgroupLayout(): CgroupLayout {
  if (existsSync(`${mount}/cgroup.controllers`)) return "v2";
  if (!existsSync(`${mount}/freezer`) && !existsSync(`${mount}/memory`)) return "none";
  return existsSync(`${mount}/unified/cgroup.procs`) ? "hybrid" : "v1";
}

/** State of a sandbox's processes by its control group (path below the mount, with a leading slash). Two small reads, no process. */
export function groupState(path: string): "running" | "paused" | "gone" {
  const folder = existsSync(`${mount}/cgroup.controllers`) ? mount + path : `${mount}/freezer${path}`;
  try {
    if (readFileSync(`${folder}/cgroup.procs`, "latin1") === "") return "gone";
    const frozen =
      folder === mount + path
        ? readFileSync(`${folder}/cgroup.freeze`, "latin1")
        : readFileSync(`${folder}/freezer.state`, "latin1");
    return /^(1|FROZEN|FREEZING)/.test(frozen) ? "paused" : "running";
  } catch {
    return "gone";
  }
}

/** Host ids of the processes of a control group. */
export function groupMembers(path: string): number[] {
  const folder = existsSync(`${mount}/cgroup.controllers`) ? mount + path : `${mount}/freezer${path}`;
  return readFileSync(`${folder}/cgroup.procs`, "latin1").split("\n").filter(Boolean).map(Number);
}

/**
 * Removes what a runtime leaves of a control group: crun makes a plain folder below a hidden v2 tree, and killed starts leave empty groups.
 * Groups that still have members stay.
 */
export function removeGroup(path: string): void {
  const folders = [mount + path];
  if (!existsSync(`${mount}/cgroup.controllers`)) {
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
