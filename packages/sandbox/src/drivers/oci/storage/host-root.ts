import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, normalize } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { trimBoth } from "@sandpiper/core/trim";
import type { PreparedSpec } from "../../../driver.ts";
import type { Layers } from "./layers.ts";

const baseFolders = "usr proc sys dev dev/pts dev/shm etc etc/ssl var var/lib run mnt opt srv home".split(
  " ",
);
/** Layers that are kept although no sandbox uses them. */
const maxKnownLayers = 32;
/** Merged-usr links; each is created as the host has it. */
const hostLinks = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** Host files that tools read and that reveal nothing about the host's users. */
const hostFiles = ["ld.so.cache", "localtime", "protocols", "services", "inputrc", "debian_version"];

type Entry = { path: string } & ({ folder: number; user: boolean } | { link: string } | { base64: string });

/**
 * The lowest layer of `host` sandboxes: a minimal tree that /usr is mounted into, one per user and
 * working directory.
 */
export class HostRoot {
  readonly #layers: Layers;
  readonly #idBase: number;
  /** Entries of every tree, read once from the machine. */
  readonly #machine: Entry[];
  /** Names of the layers used last, by user and working directory, which clients may choose. */
  readonly #made = new Map<string, string>();

  /** `idBase`: host id of every sandbox's root. `mounts`: mount points of each start. */
  constructor(layers: Layers, idBase: number, mounts: string[]) {
    this.#layers = layers;
    this.#machine = machineEntries(mounts);
    this.#idBase = idBase;
  }

  /** Returns the name of the layer and creates it when it is missing. */
  getLayer(spec: PreparedSpec): string {
    const key = JSON.stringify([spec.user, spec.workingDir]);
    const known = this.#made.get(key);
    if (known !== undefined && this.#layers.exists(known)) return known;
    const entries = [...this.#machine, ...specEntries(spec)];
    const links = new Set(entries.flatMap((entry) => ("link" in entry ? [entry.path] : [])));
    const hidden = entries.find((entry) => "folder" in entry && links.has(entry.path));
    if (hidden) throw new PlatformError("HostFolderIsLink", { path: `/${hidden.path}` });
    const hash = createHash("sha256")
      .update(JSON.stringify([entries, spec.user, this.#idBase]))
      .digest("hex");
    const name = `h${hash.slice(0, 10)}`;
    if (!this.#layers.exists(name)) this.#make(this.#layers.path(name), entries, spec);
    this.#made.delete(key);
    this.#made.set(key, name);
    if (this.#made.size > maxKnownLayers) this.#made.delete(this.#made.keys().next().value!);
    return name;
  }

  /** True when the layer may be needed again. */
  isCached(name: string): boolean {
    return [...this.#made.values()].includes(name);
  }

  #make(target: string, entries: Entry[], spec: PreparedSpec): void {
    const draft = `${target}.new`;
    rmSync(draft, { recursive: true, force: true });
    const base = this.#idBase;
    const user = { uid: base + spec.user.uid, gid: base + spec.user.gid };
    for (const entry of [{ path: "", folder: 0o755, user: false }, ...entries]) {
      const path = join(draft, entry.path);
      if ("folder" in entry && existsSync(path)) continue;
      createEntry(path, entry);
      const owner = "user" in entry && entry.user ? user : { uid: base, gid: base };
      lchownSync(path, owner.uid, owner.gid);
    }
    renameSync(draft, target);
  }
}

/** Includes the mount points, because creating them at each start is slower than the mount. */
function machineEntries(mounts: string[]): Entry[] {
  return [
    ...[...baseFolders, ...mounts.flatMap(parentFolders)].map((path) => ({
      path,
      folder: 0o755,
      user: false,
    })),
    { path: "root", folder: 0o700, user: false },
    { path: "tmp", folder: 0o1777, user: false },
    { path: "var/tmp", folder: 0o1777, user: false },
    ...hostLinks
      .filter((name) => isLink(`/${name}`))
      .map((name) => ({ path: name, link: readlinkSync(`/${name}`) })),
    { path: "var/run", link: "/run" },
    { path: "etc/os-release", link: "../usr/lib/os-release" },
    { path: "etc/mtab", link: "/proc/mounts" },
    file("run/init", ""),
    file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    file("etc/resolv.conf", ""),
    file("etc/hostname", ""),
    file("etc/hosts", ""),
    file("etc/profile", "umask 022\n"),
    ...hostFiles
      .filter((name) => existsSync(`/etc/${name}`))
      .map((name) => file(`etc/${name}`, readFileSync(`/etc/${name}`))),
  ];
}

function specEntries(spec: PreparedSpec): Entry[] {
  const { name, uid, gid, home } = spec.user;
  const passwd = [
    "root:x:0:0:root:/root:/bin/sh",
    ...(uid === 0 ? [] : [`${name}:x:${uid}:${gid}:${name}:${home}:/bin/bash`]),
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
  ];
  return [
    ...parentFolders(home).map((path) => ({ path, folder: 0o755, user: path === trim(home) })),
    ...parentFolders(spec.workingDir).map((path) => ({ path, folder: 0o755, user: true })),
    file("etc/passwd", passwd.join("\n")),
    file("etc/group", `root:x:0:\ntty:x:5:\n${gid === 0 ? "" : `${name}:x:${gid}:\n`}nogroup:x:65534:\n`),
  ];
}

function file(path: string, content: string | Buffer): Entry {
  return { path, base64: Buffer.from(content).toString("base64") };
}

function createEntry(path: string, entry: Entry): void {
  if ("link" in entry) return symlinkSync(entry.link, path);
  if ("base64" in entry) writeFileSync(path, Buffer.from(entry.base64, "base64"));
  else mkdirSync(path);
  // The umask of the server does not apply to chmod.
  chmodSync(path, "folder" in entry ? entry.folder : 0o644);
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function trim(path: string): string {
  return trimBoth(normalize(`/${path}`), "/");
}

/** `/a/b` becomes `a`, `a/b`. */
function parentFolders(path: string): string[] {
  const all: string[] = [];
  for (let at = trim(path); at !== "." && at !== ""; at = dirname(at)) all.unshift(at);
  return all;
}
