import { call, native } from "./libc.ts";

const prlimit = native("int prlimit64(int pid, int resource, const void *limits, void *old)");

/** Numbers by their OCI names. */
const resources = { RLIMIT_DATA: 2, RLIMIT_NPROC: 6 };
export type Limit = keyof typeof resources;

/**
 * Lowers a limit, soft and hard, of a process and its future children. False when the limit was not
 * higher before or the process has ended. Throws EPERM.
 */
export function limitProcess(pid: number, name: Limit, max: number): boolean {
  const limits = new BigUint64Array(2);
  try {
    call("prlimit64", () => prlimit(pid, resources[name], null, limits));
    if (limits[1]! <= BigInt(max)) return false;
    limits.fill(BigInt(max));
    call("prlimit64", () => prlimit(pid, resources[name], limits, null));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}
