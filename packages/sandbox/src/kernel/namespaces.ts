import { openSync } from "node:fs";
import { call, native } from "./libc.ts";

const CLONE_NEWNS = 0x0002_0000;
const CLONE_NEWNET = 0x4000_0000;

const setns = native("int setns(int fd, int type)");
const unshare = native("int unshare(int flags)");

/**
 * Gives the calling thread a mount namespace of its own, in which nothing propagates out. Only for a worker thread that lives for this:
 * what it mounts, and what the programs that it spawns see, is invisible to the rest of the process, and gone when the thread ends.
 */
export function privateMounts(): void {
  call("unshare", () => unshare(CLONE_NEWNS));
}

let own: number | undefined;

/**
 * Gives the calling thread a network namespace of its own. Only for a worker thread: for one that can enter other networks and not come back to
 * the machine's, as it is in a user namespace.
 */
export function privateNetwork(): void {
  call("unshare", () => unshare(CLONE_NEWNET));
}

/**
 * Runs synchronous work in a network namespace (an open file of it), so that a socket made by it belongs there for good.
 * The work must be synchronous: nothing else runs on this thread meanwhile.
 */
export function inNetwork<T>(network: number, work: () => T): T {
  own ??= openSync("/proc/thread-self/ns/net", "r");
  call("setns", () => setns(network, CLONE_NEWNET));
  try {
    return work();
  } finally {
    // A thread that cannot go back would do everything else in the wrong network.
    const home = own;
    try {
      call("setns", () => setns(home, CLONE_NEWNET));
    } catch (error) {
      process.stderr.write(`sandpiper: the server's own network namespace is lost: ${String(error)}\n`);
      process.abort();
    }
  }
}
