import { readFileSync, statfsSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import type { SandboxLimits } from "../driver.ts";

/** The resources of this machine; `dataDir` is on the disk of the sandboxes. */
export function getMachineLimits(dataDir: string): SandboxLimits {
  const disk = statfsSync(dataDir);
  return {
    memoryBytes: totalmem(),
    pids: Number(readFileSync("/proc/sys/kernel/pid_max", "utf8")),
    cpus: cpus().length,
    diskBytes: disk.blocks * disk.bsize,
  };
}

export function clampLimits(limits: SandboxLimits, machine: SandboxLimits): SandboxLimits {
  return {
    memoryBytes: Math.min(limits.memoryBytes, machine.memoryBytes),
    pids: Math.min(limits.pids, machine.pids),
    cpus: Math.min(limits.cpus, machine.cpus),
    diskBytes: Math.min(limits.diskBytes, machine.diskBytes),
  };
}
