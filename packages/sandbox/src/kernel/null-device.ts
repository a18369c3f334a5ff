import { closeSync, constants, openSync } from "node:fs";
import { MOUNT_ATTR_RDONLY, openDetachedMount, setMountAttributes } from "./detached-mount.ts";

const path = "/dev/null";
let descriptor: number | undefined;

/**
 * A descriptor of the null device for the standard streams of an OCI runtime. crun changes the
 * owner of its standard streams to the sandbox's user, who could then break the machine's
 * `/dev/null`. So this descriptor goes through a detached read-only mount, where owner and mode
 * cannot change. Throws EMFILE, ….
 */
export function openNullDevice(): number {
  descriptor ??= openReadOnlyMount() ?? openSync(path, constants.O_RDWR);
  return descriptor;
}

/** The kernel is older than 5.12, or a user namespace forbids it, where nobody owns the device. */
const unsupportedCodes = ["EPERM", "ENOSYS", "EINVAL"];

/** Undefined when the machine does not support it. */
function openReadOnlyMount(): number | undefined {
  let tree: number | undefined;
  try {
    tree = openDetachedMount(path);
    setMountAttributes(tree, MOUNT_ATTR_RDONLY);
    return openSync(`/proc/self/fd/${tree}`, constants.O_RDWR);
  } catch (error) {
    if (unsupportedCodes.includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  } finally {
    if (tree !== undefined) closeSync(tree);
  }
}
