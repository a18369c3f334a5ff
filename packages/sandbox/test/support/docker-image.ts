import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type Docker from "dockerode";

/** An image for tests with busybox and an unprivileged user only. */
export const busyboxImage = "sandpiper-test/busybox:1";
/** An image for tests with one program, `/busybox`, and no shell. */
export const scratchImage = "sandpiper-test/scratch:1";

/** Imports both images into an engine, from the machine's static busybox. */
export async function importTestImages(docker: Docker): Promise<void> {
  const dir = mkdtempSync("/tmp/sandpiper-image-");
  try {
    const root = join(dir, "root");
    for (const folder of ["bin", "etc", "tmp", "home/agent", "root"])
      mkdirSync(join(root, folder), { recursive: true });
    chmodSync(join(root, "tmp"), 0o1777);
    copyFileSync("/bin/busybox", join(root, "bin/busybox"));
    for (const applet of await applets())
      if (applet !== "busybox") symlinkSync("busybox", join(root, "bin", applet));
    writeFileSync(
      join(root, "etc/passwd"),
      "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n",
    );
    writeFileSync(join(root, "etc/group"), "root:x:0:\nagent:x:1000:\nstaff:x:50:agent\n");
    await importFolder(docker, root, busyboxImage, [
      "ENV FROM_IMAGE=yes",
      "USER agent",
      "WORKDIR /workspace/project",
    ]);
    const single = join(dir, "single");
    mkdirSync(single);
    copyFileSync("/bin/busybox", join(single, "busybox"));
    await importFolder(docker, single, scratchImage, []);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export async function importFolder(
  docker: Docker,
  folder: string,
  name: string,
  changes: string[],
): Promise<void> {
  const [repo, tag] = name.split(":");
  const pack = spawn("tar", ["-c", "--owner=0", "--group=0", "-C", folder, "."], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const answer = await docker.importImage(pack.stdout, { repo, tag, changes });
  const words = await text(answer);
  if (/"error"/.test(words)) throw new Error(words);
}

async function applets(): Promise<string[]> {
  const list = spawn("/bin/busybox", ["--list"], { stdio: ["ignore", "pipe", "inherit"] });
  const [words] = await Promise.all([text(list.stdout), once(list, "close")]);
  return words.trim().split("\n");
}
