import { call, native } from "./libc.ts";

const openTree = native("long syscall(long number, int fd, const char *path, unsigned int flags)");
const mountSetattr = native(
  "long syscall(long number, int fd, const char *path, unsigned int flags, const void *attributes, size_t size)",
);

/** These numbers are the same on every architecture. */
const SYS_open_tree = 428;
const SYS_mount_setattr = 442;

const AT_EMPTY_PATH = 0x1000;
const OPEN_TREE_CLONE = 1;
const OPEN_TREE_CLOEXEC = 0o2000000;
export const MOUNT_ATTR_RDONLY = 0x1n;

export const AT_FDCWD = -100;

/**
 * Opens a copy of the mount at a path that is attached nowhere, without mounts below it. The caller
 * closes the descriptor.
 */
export function openDetachedMount(path: string): number {
  return call("open_tree", () =>
    openTree(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC),
  );
}

/**
 * Sets attributes of a detached mount (MOUNT_ATTR_…), with the user namespace of MOUNT_ATTR_IDMAP.
 */
export function setMountAttributes(mount: number, attributes: bigint, userNamespace = 0): void {
  const set = Buffer.from(BigUint64Array.of(attributes, 0n, 0n, BigInt(userNamespace)).buffer);
  call("mount_setattr", () => mountSetattr(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, set, set.length));
}
