import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isCgroupV2 } from "./kernel-memory.ts";

const mount = "/sys/fs/cgroup";

/** Share of the machine's process ids that all sandboxes of an installation may use together. */
export const processShare = 0.75;

/**
 * Creates the control group of an installation (path below the mount) with a limit for all its
 * sandboxes, so that the machine can always start processes. Returns false where that is not
 * possible: then only each sandbox has a limit.
 */
export function limitProcesses(path: string): boolean {
  const folder = isCgroupV2() ? mount + path : `${mount}/pids${path}`;
  try {
    const [ids, threads] = ["pid_max", "threads-max"].map((name) =>
      Number(readFileSync(`/proc/sys/kernel/${name}`, "latin1")),
    ) as [number, number];
    if (isCgroupV2()) writeFileSync(`${mount}/cgroup.subtree_control`, "+pids");
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${folder}/pids.max`, String(Math.floor(Math.min(ids, threads) * processShare)));
    return true;
  } catch {
    return false;
  }
}
