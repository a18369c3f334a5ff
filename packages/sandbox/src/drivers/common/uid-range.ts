import { readFileSync } from "node:fs";

/** Ids of a sandbox: 0…65535 inside. */
export const idRangeSize = 65_536;

/**
 * Host id on the disk of id 0 in every sandbox, whose files have 65,536 ids from there. A server in
 * a user namespace (run by an ordinary user) has few ids and gives sandboxes all but its own.
 */
export function getSandboxIdBase(): number {
  const [inside, outside, count] = readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/).map(Number);
  return inside === 0 && outside === 0 && count! > 0x7000_0000 ? 0x1000_0000 : 1;
}

/** True when an ordinary user runs this server, in a user namespace. */
export function isRootless(): boolean {
  return getSandboxIdBase() === 1;
}
