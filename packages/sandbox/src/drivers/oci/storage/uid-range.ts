import { readFileSync } from "node:fs";

/**
 * The host id that is id 0 of every sandbox of this server; 65536 ids from there on are theirs. A server in a user namespace (an ordinary user's)
 * has few ids and gives away all but its own.
 */
export function sandboxIdBase(): number {
  const [inside, outside, count] = readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/).map(Number);
  return inside === 0 && outside === 0 && count! > 0x7000_0000 ? 0x1000_0000 : 1;
}

/** Whether this server is an ordinary user's, in a user namespace of its own. */
export function rootless(): boolean {
  return sandboxIdBase() === 1;
}
