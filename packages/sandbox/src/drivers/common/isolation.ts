import type { PreparedSpec } from "../../driver.ts";

/** Paths of /proc and /sys that reveal facts about the machine; older engines mask fewer. */
export const maskedPaths = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/interrupts",
  "/proc/kallsyms",
  "/proc/kcore",
  "/proc/keys",
  "/proc/key-users",
  "/proc/latency_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
];

export const readonlyPaths = [
  "/proc/bus",
  "/proc/fs",
  "/proc/irq",
  "/proc/pressure",
  "/proc/sys",
  "/proc/sysrq-trigger",
];

/** Under memory pressure the kernel kills sandboxed processes before the server. */
export const sandboxOomScore = 500;

/**
 * Size of /dev/shm. Its files use memory even without a process, so half of the limit stays free
 * for the command that empties it.
 */
export function getShmBytes({ limits }: PreparedSpec): number {
  return Math.min(256 * 2 ** 20, Math.floor(limits.memoryBytes / 2));
}

/** Quota per period (µs), as control groups and engines take it. */
export function toCpuQuota(cpus: number): { quota: number; period: number } {
  return { quota: Math.max(1_000, Math.round(cpus * 100_000)), period: 100_000 };
}

/** Environment of every process in a sandbox, before that of the spec. */
export function makeBaseEnvironment({ user }: PreparedSpec): Record<string, string> {
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    HOME: user.home,
    USER: user.name,
    LOGNAME: user.name,
    LANG: "C.UTF-8",
  };
}

export function formatEnvironment(env: Record<string, string>): string[] {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}
