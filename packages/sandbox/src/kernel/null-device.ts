import { closeSync, constants, openSync } from "node:fs";
import { openDetachedMount, restrictMount } from "./detached-mount.ts";

const path = "/dev/null";
let descriptor: number | undefined;

/**
 * A descriptor of the null device for what an OCI runtime starts, one for this thread. crun gives its standard streams to the sandbox's user,
 * and the machine's own `/dev/null` with them: a sandbox could then take it away from everybody. So this one is opened through a read-only
 * mount that is attached nowhere, where owner and mode cannot be changed.
 */
export function nullDevice(): number {
  descriptor ??= openReadOnlyMount() ?? openSync(path, constants.O_RDWR);
  return descriptor;
}

/** Undefined where the kernel or a user namespace forbids it; inside of such a namespace nobody owns the machine's devices anyway. */
function openReadOnlyMount(): number | undefined {
  let tree: number | undefined;
  try {
    tree = openDetachedMount(path);
    restrictMount(tree);
    return openSync(`/proc/self/fd/${tree}`, constants.O_RDWR);
  } catch {
    return undefined;
  } finally {
    if (tree !== undefined) closeSync(tree);
  }
}
