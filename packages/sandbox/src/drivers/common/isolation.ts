import type { PreparedSpec } from "../../driver.ts";

/**
 * Paths of /proc that tell about the machine: its hardware, disks, kernel configuration, load and
 * other processes. What programs need stays: `cpuinfo`, `meminfo`, `stat`, `loadavg`, `vmstat`, ….
 */
export const maskedProcPaths = `
    acpi asound buddyinfo bus cmdline config.gz consoles devices diskstats driver fs interrupts iomem
    ioports irq kallsyms kcore key-users keys latency_stats locks mdstat misc modules partitions
    pressure sched_debug schedstat scsi softirqs swaps timer_list timer_stats tty zoneinfo
  `
  .trim()
  .split(/\s+/)
  .map((name) => `/proc/${name}`);

export const readonlyPaths = ["/proc/sys", "/proc/sysrq-trigger"];

/** Folders of /sys that programs need: processors, memory nodes and page sizes. */
export const neededSysPaths = [
  "/sys/devices/system/cpu",
  "/sys/devices/system/node",
  "/sys/kernel/mm/hugepages",
  "/sys/kernel/mm/transparent_hugepage",
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

/**
 * Environment of every process in a sandbox, before that of the spec. The PATH has the place of the
 * Go toolchain too, as a user's own shell has it: it is the one part of /usr/local in a `host`
 * sandbox.
 */
export function makeBaseEnvironment({ user }: PreparedSpec): Record<string, string> {
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin",
    HOME: user.home,
    USER: user.name,
    LOGNAME: user.name,
    LANG: "C.UTF-8",
  };
}

export function formatEnvironment(env: Record<string, string>): string[] {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}
