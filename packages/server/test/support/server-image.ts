import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The image of a server for tests, in the test cluster. */
export const serverImage = { repository: "sandpiper.test/server", tag: "1" };

const scripts = fileURLToPath(new URL("../../../../scripts/", import.meta.url));
const cluster = join(scripts, "cluster/cluster");

/**
 * Loads the image into the test cluster. It has the same files as the image of
 * scripts/image/Dockerfile, on the libraries and the static busybox of this machine instead of a
 * base image.
 */
export function loadServerImage(): void {
  const dir = mkdtempSync("/tmp/sandpiper-image-");
  try {
    const root = join(dir, "root");
    for (const folder of ["bin", "data", "etc", "tmp"]) mkdirSync(join(root, folder), { recursive: true });
    chmodSync(root, 0o755);
    copyFileSync("/bin/busybox", join(root, "bin/busybox"));
    symlinkSync("busybox", join(root, "bin/sh"));
    execFileSync(join(scripts, "image/assemble"), [root], { stdio: ["ignore", "ignore", "inherit"] });
    for (const library of librariesOf(process.execPath)) {
      mkdirSync(join(root, dirname(library)), { recursive: true });
      copyFileSync(library, join(root, library));
    }
    const archive = join(dir, "image.tar");
    const name = `${serverImage.repository}:${serverImage.tag}`;
    execFileSync(cluster, ["make-image", name, root, archive, "sandpiper", "serve"]);
    execFileSync(cluster, ["load-image", archive]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/**
 * Paths of the libraries that Node.js loads, and of a part of the C library that the server itself
 * loads.
 */
function librariesOf(program: string): string[] {
  const text = execFileSync("ldd", [program], { encoding: "utf8" });
  const found = Array.from(text.matchAll(/(\/\S+) \(0x/g), ([, path]) => path!);
  return [...found, join(dirname(found.find((path) => path.includes("/libc.so"))!), "libutil.so.1")];
}
