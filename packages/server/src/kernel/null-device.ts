import { closeSync, constants, openSync } from "node:fs";
import { call, native } from "./libc.ts";

const openTree = native("long syscall(long number, int fd, const char *path, unsigned int flags)");
const mountSetattr = native(
  "long syscall(long number, int fd, const char *path, unsigned int flags, const void *attributes, size_t size)",
);

/** These numbers are the same on every architecture. */
const SYS_open_tree = 428;
const SYS_mount_setattr = 442;
const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const OPEN_TREE_CLONE = 1;
const OPEN_TREE_CLOEXEC = 0o2000000;
const MOUNT_ATTR_RDONLY = 0x1n;

const path = "/dev/null";
let descriptor: number | undefined;

/**
 * A descriptor of the null device for what an OCI runtime starts, one for this thread. crun gives its standard streams to the sandbox's user
 *, and the machine's own `/dev/null` with them: a sandbox could then take it away from everybody. So this one is
 * opened through a read-only mount that is attached nowhere, where owner and mode cannot be changed.
 */
export function nullDevice(): number {
  descriptor ??= openReadOnlyMount() ?? openSync(path, constants.O_RDWR);
  return descriptor;
}

/** Undefined where the kernel or a user namespace forbids it; inside of such a namespace nobody owns the machine's devices anyway. */
function openReadOnlyMount(): number | undefined {
  let tree: number | undefined;
  try {
    tree = call("open_tree", () => openTree(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    const attributes = Buffer.from(BigUint64Array.of(MOUNT_ATTR_RDONLY, 0n, 0n, 0n).buffer);
    const mount = tree;
    call("mount_setattr", () => mountSetattr(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, attributes, attributes.length));
    return openSync(`/proc/self/fd/${tree}`, constants.O_RDWR);
  } catch {
    return undefined;
  } finally {
    if (tree !== undefined) closeSync(tree);
  }
}
