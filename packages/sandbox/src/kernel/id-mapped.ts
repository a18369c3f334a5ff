import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { AT_FDCWD, openDetachedMount, restrictMount } from "./detached-mount.ts";
import { call, native } from "./libc.ts";

const moveMount = native(
  "long syscall(long number, int from, const char *path, int to, const char *target, unsigned int flags)",
);

/** The same on every architecture. */
const SYS_move_mount = 429;

const MOUNT_ATTR_NOSUID = 0x2n;
const MOUNT_ATTR_NODEV = 0x4n;
const MOUNT_ATTR_IDMAP = 0x10_0000n;
const MOVE_MOUNT_F_EMPTY_PATH = 4;

/**
 * Mounts a folder read-only at `target`, without mounts below it, with owners mapped by a user
 * namespace. Throws EINVAL when the filesystem does not support it (most do since Linux 5.19),
 * EPERM inside a user namespace.
 */
export function mountIdMapped(folder: string, target: string, userNamespace: number): void {
  const tree = openDetachedMount(folder);
  try {
    restrictMount(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP, userNamespace);
    call("move_mount", () => moveMount(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH));
  } finally {
    closeSync(tree);
  }
}

/**
 * Creates a user namespace that maps 0… to `base`… and returns its descriptor, which the caller
 * closes.
 */
export async function openUserNamespace(base: number, size: number): Promise<number> {
  const holder = spawn("unshare", ["--user", "cat"], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: process.env.PATH },
  });
  const ended = new Promise<void>((resolve) =>
    holder.once("close", () => resolve()).once("error", () => resolve()),
  );
  try {
    const own = readlinkSync("/proc/self/ns/user");
    const path = `/proc/${holder.pid}/ns/user`;
    for (let round = 0; ; round++) {
      if (holder.pid === undefined || holder.exitCode !== null)
        throw new Error("a user namespace could not be made");
      if (readFileSync(`/proc/${holder.pid}/comm`, "latin1") === "cat\n" && readlinkSync(path) !== own) break;
      if (round > 2_000) throw new Error("a user namespace could not be made within 2 s");
      await delay(1);
    }
    for (const file of ["uid_map", "gid_map"])
      writeFileSync(`/proc/${holder.pid}/${file}`, `0 ${base} ${size}`);
    return openSync(path, "r");
  } finally {
    holder.kill("SIGKILL");
    await ended;
  }
}
