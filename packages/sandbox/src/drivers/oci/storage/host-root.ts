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
import type { PreparedSpec } from "../../../driver.ts";
import type { Layers } from "./layers.ts";

const folders = "usr proc sys dev dev/pts dev/shm etc etc/ssl var var/lib run mnt opt srv home".split(" ");
/** Merged-usr links that a host may have; each is made as the host has it. */
const hostLinks = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** Host files that tools read and that tell nothing about the host's users. */
const hostFiles = ["ld.so.cache", "localtime", "protocols", "services", "inputrc", "debian_version"];

type Entry = { path: string } & ({ folder: number; user: boolean } | { link: string } | { base64: string });

/** The lowest layer of `host` sandboxes: a minimal tree that /usr is mounted into. There is one for each user and working directory. */
export class HostRoot {
  readonly #layers: Layers;
  readonly #idBase: number;
  /** What the machine gives to every tree, read once. */
  readonly #machine: Entry[];
  /** Names of layers that are there, by what they were asked for with. */
  readonly #made = new Map<string, string>();

  /** `idBase` is the host id of every sandbox's root. `mounts` are folders that something is mounted on at each start. */
  constructor(layers: Layers, idBase: number, mounts: string[]) {
    this.#layers = layers;
    this.#machine = machineEntries(mounts);
    this.#idBase = idBase;
  }

  /** Name of the layer; it is made where it is missing. Throws what the filesystem throws. */
  layerFor(spec: PreparedSpec): string {
    const key = JSON.stringify([spec.user, spec.workingDir]);
    const known = this.#made.get(key);
    if (known !== undefined && this.#layers.exists(known)) return known;
    const entries = [...this.#machine, ...specEntries(spec)];
    const links = new Set(entries.flatMap((entry) => ("link" in entry ? [entry.path] : [])));
    const behind = entries.find((entry) => "folder" in entry && links.has(entry.path));
    if (behind)
      throw new PlatformError(
        "SandboxSpecUnusable",
        `/${behind.path} is a link in a host sandbox; choose another folder.`,
      );
    const hash = createHash("sha256")
      .update(JSON.stringify([entries, spec.user, this.#idBase]))
      .digest("hex");
    const name = `h${hash.slice(0, 10)}`;
    if (!this.#layers.exists(name)) this.#make(this.#layers.path(name), entries, spec);
    this.#made.set(key, name);
    return name;
  }

  /** Whether a layer of that name may be asked for again. */
  keeps(name: string): boolean {
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
      make(path, entry);
      const owner = "user" in entry && entry.user ? user : { uid: base, gid: base };
      lchownSync(path, owner.uid, owner.gid);
    }
    renameSync(draft, target);
  }
}

/** A mount point that is missing here would be made in the upper layer at each start, which costs more than the mount. */
function machineEntries(mounts: string[]): Entry[] {
  const file = (path: string, content: string | Buffer): Entry => ({
    path,
    base64: Buffer.from(content).toString("base64"),
  });
  return [
    ...[...folders, ...mounts.flatMap(foldersDownTo)].map((path) => ({ path, folder: 0o755, user: false })),
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
  const text = (path: string, content: string): Entry => ({
    path,
    base64: Buffer.from(content).toString("base64"),
  });
  const passwd = [
    "root:x:0:0:root:/root:/bin/sh",
    ...(uid === 0 ? [] : [`${name}:x:${uid}:${gid}:${name}:${home}:/bin/bash`]),
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
  ];
  return [
    ...foldersDownTo(home).map((path) => ({ path, folder: 0o755, user: path === trim(home) })),
    ...foldersDownTo(spec.workingDir).map((path) => ({ path, folder: 0o755, user: true })),
    text("etc/passwd", passwd.join("\n")),
    text("etc/group", `root:x:0:\ntty:x:5:\n${gid === 0 ? "" : `${name}:x:${gid}:\n`}nogroup:x:65534:\n`),
  ];
}

function make(path: string, entry: Entry): void {
  if ("link" in entry) return symlinkSync(entry.link, path);
  if ("base64" in entry) writeFileSync(path, Buffer.from(entry.base64, "base64"));
  else mkdirSync(path);
  // The server's file mode mask must not decide here.
  chmodSync(path, "folder" in entry ? entry.folder : 0o644);
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function trim(path: string): string {
  return normalize(`/${path}`).replace(/^\/+|\/+$/g, "");
}

/** `/a/b` gives `a`, `a/b`. */
function foldersDownTo(path: string): string[] {
  const all: string[] = [];
  for (let at = trim(path); at !== "." && at !== ""; at = dirname(at)) all.unshift(at);
  return all;
}
