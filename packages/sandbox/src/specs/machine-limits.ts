import { readFileSync, statfsSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import type { SandboxLimits } from "../driver.ts";

/** The most that a sandbox can have on this machine; `dataDir` lies on the disk that holds the sandboxes. */
export function getMachineLimits(dataDir: string): SandboxLimits {
  const disk = statfsSync(dataDir);
  return {
    memoryBytes: totalmem(),
    pids: Number(readFileSync("/proc/sys/kernel/pid_max", "utf8")),
    cpus: cpus().length,
    diskBytes: disk.blocks * disk.bsize,
  };
}

/** `limits` where the machine has as much, else what it has. */
export function clampLimits(limits: SandboxLimits, machine: SandboxLimits): SandboxLimits {
  return {
    memoryBytes: Math.min(limits.memoryBytes, machine.memoryBytes),
    pids: Math.min(limits.pids, machine.pids),
    cpus: Math.min(limits.cpus, machine.cpus),
    diskBytes: Math.min(limits.diskBytes, machine.diskBytes),
  };
}
