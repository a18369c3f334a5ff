import { openSync } from "node:fs";
import { call, native } from "./libc.ts";

const CLONE_NEWNS = 0x0002_0000;
const CLONE_NEWNET = 0x4000_0000;

const setns = native("int setns(int fd, int type)");
const unshare = native("int unshare(int flags)");

/**
 * Gives the calling worker thread its own mount namespace, from which nothing propagates. Its
 * mounts are visible only to the thread and to programs that it spawns, and end with the thread.
 */
export function unshareMounts(): void {
  call("unshare", () => unshare(CLONE_NEWNS));
}

let own: number | undefined;

/**
 * Gives the calling worker thread its own network namespace. In a user namespace a thread can enter
 * other networks but not return to the machine's.
 */
export function unshareNetwork(): void {
  call("unshare", () => unshare(CLONE_NEWNET));
}

/**
 * Runs synchronous work in a network namespace (an open descriptor); a socket that it creates stays
 * there.
 */
export function inNetwork<T>(network: number, work: () => T): T {
  own ??= openSync("/proc/thread-self/ns/net", "r");
  call("setns", () => setns(network, CLONE_NEWNET));
  try {
    return work();
  } finally {
    // A thread that cannot return would do all later work in the wrong network.
    const home = own;
    try {
      call("setns", () => setns(home, CLONE_NEWNET));
    } catch (error) {
      process.stderr.write(`sandpiper: the server's own network namespace is lost: ${String(error)}\n`);
      process.abort();
    }
  }
}
