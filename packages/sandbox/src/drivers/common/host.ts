import { existsSync, readdirSync, readFileSync } from "node:fs";
import { neededSysPaths } from "./isolation.ts";

/** A read-only mount in a sandbox. */
export interface BindMount {
  /** Path on this machine; null: an empty folder. */
  source: string | null;
  destination: string;
  recursive?: boolean;
}

/** Resources of this machine for sandboxes; inspected once. */
export interface HostResources {
  /** Path of a static init, or null. */
  init: string | null;
  /** Mounts of `host` sandboxes, parents first. */
  binds: BindMount[];
  /** Parts of /sys in every sandbox. */
  sysBinds: BindMount[];
}

/** Debian's package `catatonit`. */
export const hostInitPath = "/usr/bin/catatonit";

export function inspectHost(): HostResources {
  return {
    init: existsSync(hostInitPath) ? hostInitPath : null,
    binds: [...bindAll(["/usr"]), ...localMounts(), ...bindAll(etcFolders())],
    sysBinds: bindAll(neededSysPaths),
  };
}

/** Mounts of the paths that exist. */
function bindAll(paths: string[]): BindMount[] {
  return paths
    .filter((path) => existsSync(path))
    .map((path) => ({
      source: path,
      destination: path,
      ...(hasMountsBelow(path) ? { recursive: true } : {}),
    }));
}

const localFolder = "/usr/local";
/** The usual place of the Go toolchain. */
const sharedLocalFolders = [`${localFolder}/go`];

/** Hides what the machine's owner installed by hand, except toolchains. */
function localMounts(): BindMount[] {
  if (!existsSync(localFolder)) return [];
  return [{ source: null, destination: localFolder }, ...bindAll(sharedLocalFolders)];
}

/** Folders of the host's /etc that are bound read-only into `host` sandboxes if they exist. */
const sharedEtcFolders = ["alternatives", "ssl/certs", "maven"];

function etcFolders(): string[] {
  const java = readdirSync("/etc").filter((name) => /^java-.*openjdk$/.test(name));
  return [...sharedEtcFolders, ...java].map((name) => `/etc/${name}`);
}

function hasMountsBelow(path: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .some((line) => line.split(" ")[4]?.startsWith(`${path}/`));
}
