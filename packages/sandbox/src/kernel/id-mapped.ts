import { closeSync } from "node:fs";
import { AT_FDCWD, MOUNT_ATTR_RDONLY, openDetachedMount, setMountAttributes } from "./detached-mount.ts";
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
 * Maps the owners in a detached mount by a user namespace. Throws EINVAL when the filesystem does
 * not support it (most do since Linux 5.19), EPERM inside a user namespace.
 */
export function mapOwners(mount: number, userNamespace: number, attributes = 0n): void {
  setMountAttributes(mount, MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP | attributes, userNamespace);
}

/**
 * Mounts a folder at `target`, without mounts below it, with owners mapped as by `mapOwners`.
 * Throws EINVAL and EPERM.
 */
export function mountIdMapped(
  folder: string,
  target: string,
  { userNamespace, writable }: { userNamespace: number; writable: boolean },
): void {
  const tree = openDetachedMount(folder);
  try {
    mapOwners(tree, userNamespace, writable ? 0n : MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID);
    call("move_mount", () => moveMount(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH));
  } finally {
    closeSync(tree);
  }
}
