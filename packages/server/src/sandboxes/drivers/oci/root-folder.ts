import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { SandboxSpec } from "../../driver.ts";

/** Merged-usr links that a host may have; each is made as the host has it. */
const links = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
const folders = "usr proc sys dev etc etc/ssl var var/lib var/cache var/log run mnt opt srv home".split(" ");
/** Host files that tools read and that tell nothing about the host's users. */
const copies = ["ld.so.cache", "localtime", "protocols", "services", "inputrc", "debian_version"];

/** Folders of the host's /etc that are bound read-only into every sandbox, where they exist. */
export const sharedEtcFolders = ["alternatives", "ssl/certs", "maven"];

/**
 * Makes the root folder of a `host` sandbox: the minimal tree that /usr is mounted into. It is the sandbox's writable layer.
 * Everything belongs to the sandbox's root (`idBase`), except what its user works in.
 */
export function makeHostRoot(root: string, id: string, spec: SandboxSpec, idBase: number): void {
  const owner = { uid: idBase, gid: idBase };
  const user = { uid: idBase + spec.user.uid, gid: idBase + spec.user.gid };

  mkdirSync(root, { mode: 0o755 });
  lchownSync(root, owner.uid, owner.gid);
  /** The server's file mode mask takes something away from what is asked for below. */
  const masked = (statSync(root).mode & 0o777) !== 0o755;
  if (masked) chmodSync(root, 0o755);
  const made = new Set<string>();

  const folder = (path: string, who = owner, mode = 0o755) => {
    const full = join(root, path);
    if (made.has(full)) return;
    made.add(full);
    mkdirSync(full, { mode });
    if (masked || mode > 0o777) chmodSync(full, mode);
    lchownSync(full, who.uid, who.gid);
  };
  const file = (path: string, content: string | Buffer) => {
    writeFileSync(join(root, path), content, { mode: 0o644 });
    if (masked) chmodSync(join(root, path), 0o644);
    lchownSync(join(root, path), owner.uid, owner.gid);
  };
  const link = (path: string, target: string) => {
    symlinkSync(target, join(root, path));
    lchownSync(join(root, path), owner.uid, owner.gid);
  };

  for (const path of folders) folder(path);
  folder("root", owner, 0o700);
  for (const path of ["tmp", "var/tmp", "run/lock"]) folder(path, owner, 0o1777);
  for (const name of links) if (isLink(`/${name}`)) link(name, readlinkSync(`/${name}`));
  link("var/run", "/run");
  file("run/init", "");

  for (const path of foldersDownTo(spec.user.home)) folder(path, path === trim(spec.user.home) ? user : owner);
  for (const path of foldersDownTo(spec.workingDir)) folder(path, user);

  const { name, uid, gid, home } = spec.user;
  file(
    "etc/passwd",
    `root:x:0:0:root:/root:/bin/sh\n${name}:x:${uid}:${gid}:${name}:${home}:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
  );
  file("etc/group", `root:x:0:\ntty:x:5:\n${name}:x:${gid}:\nnogroup:x:65534:\n`);
  file("etc/hostname", `${id}\n`);
  file("etc/hosts", `127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t${id}\n`);
  file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
  file("etc/resolv.conf", "");
  file("etc/profile", 'for part in /etc/profile.d/*.sh; do [ -r "$part" ] && . "$part"; done\nunset part\n');
  folder("etc/profile.d");
  link("etc/os-release", "../usr/lib/os-release");
  link("etc/mtab", "/proc/mounts");
  for (const path of copies) {
    if (existsSync(`/etc/${path}`)) file(`etc/${path}`, readFileSync(`/etc/${path}`));
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function trim(path: string): string {
  return path.replace(/^\/+|\/+$/g, "");
}

/** `/a/b` gives `a`, `a/b`. */
function foldersDownTo(path: string): string[] {
  const all: string[] = [];
  for (let at = trim(path); at !== "." && at !== ""; at = dirname(at)) all.unshift(at);
  return all;
}
