import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

/** Merged-usr links that a host may have; each is made as the host has it. */
const hostLinks = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** Host files that tools read and that tell nothing about the host's users. */
const hostFiles = ["ld.so.cache", "localtime", "protocols", "services", "inputrc", "debian_version"];

/** A file or link that every sandbox has alike: its path below the root, and where it lies ready to be linked. */
export interface TemplateEntry {
  path: string;
  source: string;
}

/**
 * Makes what is the same in every sandbox once, in a folder below `dir` that is named after its content. Sandboxes get hard links to it:
 * a link costs a fraction of a new file. It belongs to the host's root, whom no sandbox has, so none can change it.
 */
export function makeRootTemplate(dir: string): TemplateEntry[] {
  const content = templateContent();
  const hash = createHash("sha256").update(JSON.stringify(content)).digest("hex").slice(0, 16);
  const folder = join(dir, `template-${hash}`);
  if (!existsSync(folder)) {
    const draft = join(dir, `template.new-${randomBytes(6).toString("hex")}`);
    mkdirSync(draft, { mode: 0o711 });
    content.forEach((item, index) => {
      make(join(draft, String(index)), item);
    });
    renameSync(draft, folder);
  }
  for (const name of readdirSync(dir)) {
    if (name.startsWith("template") && name !== `template-${hash}`) rmSync(join(dir, name), { recursive: true, force: true });
  }
  return content.map(({ path }, index) => ({ path, source: join(folder, String(index)) }));
}

type Item = { path: string; link: string } | { path: string; base64: string };

function templateContent(): Item[] {
  const file = (path: string, content: string | Buffer): Item => ({ path, base64: Buffer.from(content).toString("base64") });
  return [
    ...hostLinks.filter((name) => isLink(`/${name}`)).map((name) => ({ path: name, link: readlinkSync(`/${name}`) })),
    { path: "var/run", link: "/run" },
    { path: "etc/os-release", link: "../usr/lib/os-release" },
    { path: "etc/mtab", link: "/proc/mounts" },
    file("run/init", ""),
    file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    file("etc/resolv.conf", ""),
    file("etc/profile", "umask 022\n"),
    ...hostFiles.filter((name) => existsSync(`/etc/${name}`)).map((name) => file(`etc/${name}`, readFileSync(`/etc/${name}`))),
  ];
}

function make(path: string, item: Item): void {
  if ("link" in item) return symlinkSync(item.link, path);
  writeFileSync(path, Buffer.from(item.base64, "base64"));
  chmodSync(path, 0o644);
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}
