import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { sharedEtcFolders } from "./root-folder.ts";

/** What this machine offers to sandboxes; looked up once. */
export interface Host {
  /** A static init, or null. */
  init: string | null;
  /** Largest number of open files that a process in a sandbox may have. */
  openFiles: number;
  binds: { source: string; destination: string; recursive?: boolean }[];
  /** Where the driver's folder is mounted for a starting runtime, or null when it is reachable where it is. */
  visibleDir: string | null;
  /** Words before the runtime's command where it needs `visibleDir`. */
  prefix: string[];
}

/** Debian's package `catatonit`. */
export const initPath = "/usr/bin/catatonit";

/** A folder that every machine has and that a starting sandbox does not need. */
const stage = "/mnt";

export function inspectHost(dir: string): Host {
  const reachable = isReachable(dir);
  return {
    init: existsSync(initPath) ? initPath : null,
    openFiles: Math.min(65_536, hardOpenFiles()),
    binds: ["/usr", ...etcFolders()].map((path) => ({
      source: path,
      destination: path,
      ...(hasMountsBelow(path) ? { recursive: true } : {}),
    })),
    visibleDir: reachable ? null : stage,
    prefix: reachable
      ? []
      : [
          "unshare",
          "--mount",
          "--propagation",
          "slave",
          "sh",
          "-c",
          `mount --bind "$1" ${stage} && shift && exec "$@"`,
          "sh",
          dir,
        ],
  };
}

/**
 * A sandbox's root is nobody special on the host, so it gets to its root folder only through folders that everybody may pass.
 * A data folder below a closed home is therefore shown to the runtime in another place, in a mount namespace that ends with the start.
 */
function isReachable(dir: string): boolean {
  for (let at = dir; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

function etcFolders(): string[] {
  const java = readdirSync("/etc").filter((name) => /^java-.*openjdk$/.test(name));
  return [...sharedEtcFolders, ...java].map((name) => `/etc/${name}`).filter((path) => existsSync(path));
}

function hasMountsBelow(path: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .some((line) => line.split(" ")[4]?.startsWith(`${path}/`));
}

function hardOpenFiles(): number {
  const line = /^Max open files\s+\d+\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
  return line ? Number(line[1]) : 1_024;
}
