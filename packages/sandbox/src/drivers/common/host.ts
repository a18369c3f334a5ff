import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
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
    binds: [
      ...bindAll(["/usr"]),
      ...localMounts(),
      ...settingsFolders.flatMap(bindWithoutPasswords),
      ...bindAll(etcFolders()),
    ],
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
const sharedEtcFolders = ["alternatives", "ssl/certs"];

function etcFolders(): string[] {
  const java = readdirSync("/etc").filter((name) => /^java-.*openjdk$/.test(name));
  return [...sharedEtcFolders, ...java].map((name) => `/etc/${name}`);
}

interface SettingsFolder {
  folder: string;
  /** Settings of a package manager, where an owner may have stored a password. */
  file: string;
  /** Part of a folder that is bound already. */
  isBound?: true;
}

const settingsFolders: readonly SettingsFolder[] = [
  { folder: "/etc/maven", file: "settings.xml" },
  { folder: "/usr/etc", file: "npmrc", isBound: true },
];

/** Mounts of a folder that leave its file of settings out if that holds a password. */
export function bindWithoutPasswords({ folder, file, isBound }: SettingsFolder): BindMount[] {
  if (!holdsPassword(join(folder, file))) return isBound ? [] : bindAll([folder]);
  const others = readdirSync(folder).filter((name) => name !== file);
  return [{ source: null, destination: folder }, ...bindAll(others.map((name) => join(folder, name)))];
}

/** Whether a file of settings has a password or a key outside of XML comments. */
function holdsPassword(path: string): boolean {
  if (!existsSync(path)) return false;
  const parts = readFileSync(path, "utf8").split("<!--");
  const text = parts.map((part, at) => (at === 0 ? part : (part.split("-->", 2)[1] ?? ""))).join("");
  return /<(?:password|passphrase|privateKey)>|_auth|_password|PRIVATE KEY/i.test(text);
}

function hasMountsBelow(path: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .some((line) => line.split(" ")[4]?.startsWith(`${path}/`));
}
