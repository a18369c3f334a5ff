import { readFileSync } from "node:fs";

/** CAP_SYS_RESOURCE as a bit of a capability set. */
const resourceCapability = 1n << 24n;

/**
 * True when this process may change limits of all processes. Some containers and virtual machines
 * give their root all capabilities but this; a user namespace never gives it.
 */
export function hasResourceCapability(): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1];
  const isInitial = /^ {0,20}0 {1,20}0 {1,20}4294967295$/m.test(readFileSync("/proc/self/uid_map", "latin1"));
  return isInitial && (BigInt(`0x${effective ?? "0"}`) & resourceCapability) !== 0n;
}
