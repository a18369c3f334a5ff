import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Resources of this machine for sandboxes; inspected once. */
export interface HostResources {
  /** Path of a static init, or null. */
  init: string | null;
  /** Mounted read-only into `host` sandboxes. */
  binds: { source: string; destination: string; recursive?: boolean }[];
}

/** Debian's package `catatonit`. */
export const hostInitPath = "/usr/bin/catatonit";

export function inspectHost(): HostResources {
  return {
    init: existsSync(hostInitPath) ? hostInitPath : null,
    binds: ["/usr", ...etcFolders()].map((path) => ({
      source: path,
      destination: path,
      ...(hasMountsBelow(path) ? { recursive: true } : {}),
    })),
  };
}

/** Folders of the host's /etc that are bound read-only into `host` sandboxes if they exist. */
const sharedEtcFolders = ["alternatives", "ssl/certs", "maven"];

function etcFolders(): string[] {
  const java = readdirSync("/etc").filter((name) => /^java-.*openjdk$/.test(name));
  return [...sharedEtcFolders, ...java].map((name) => `/etc/${name}`).filter((path) => existsSync(path));
}

function hasMountsBelow(path: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .some((line) => line.split(" ")[4]?.startsWith(`${path}/`));
}
