import { chmodSync, lchownSync, linkSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { PreparedSpec } from "../../driver.ts";
import type { TemplateEntry } from "./root-template.ts";

const folders = "usr proc sys dev etc etc/ssl var var/lib run mnt opt srv home".split(" ");

/** Folders of the host's /etc that are bound read-only into every sandbox, where they exist. */
export const sharedEtcFolders = ["alternatives", "ssl/certs", "maven"];

/**
 * Makes the root folder of a `host` sandbox: the minimal tree that /usr is mounted into. It is the sandbox's writable layer.
 * Folders belong to the sandbox's root (`idBase`), except what its user works in.
 */
export function makeHostRoot(root: string, spec: PreparedSpec, idBase: number, template: TemplateEntry[]): void {
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
  const file = (path: string, content: string) => {
    writeFileSync(join(root, path), content, { mode: 0o644 });
    if (masked) chmodSync(join(root, path), 0o644);
    lchownSync(join(root, path), owner.uid, owner.gid);
  };

  for (const path of folders) folder(path);
  folder("root", owner, 0o700);
  for (const path of ["tmp", "var/tmp"]) folder(path, owner, 0o1777);
  for (const path of foldersDownTo(spec.user.home)) folder(path, path === trim(spec.user.home) ? user : owner);
  for (const path of foldersDownTo(spec.workingDir)) folder(path, user);
  for (const { path, source } of template) linkSync(source, join(root, path));

  const { name, uid, gid, home } = spec.user;
  file(
    "etc/passwd",
    [
      "root:x:0:0:root:/root:/bin/sh",
      `${name}:x:${uid}:${gid}:${name}:${home}:/bin/bash`,
      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ].join("\n"),
  );
  file("etc/group", `root:x:0:\ntty:x:5:\n${name}:x:${gid}:\nnogroup:x:65534:\n`);
  file("etc/hostname", "");
  file("etc/hosts", "");
}

/** Writes the sandbox's name into its root folder, which may have been made before the name was known. */
export function nameHostRoot(root: string, id: string): void {
  writeFileSync(join(root, "etc/hostname"), `${id}\n`);
  writeFileSync(join(root, "etc/hosts"), `127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t${id}\n`);
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
