import { call, native } from "./libc.ts";

const prlimit = native("int prlimit64(int pid, int resource, const void *limits, void *old)");

/** By their OCI names. */
const resources = { RLIMIT_DATA: 2, RLIMIT_NPROC: 6 };
export type Limit = keyof typeof resources;

/** Sets a limit, soft and hard, of a process and of those that it starts from then on. Throws ESRCH, EPERM. */
export function limitProcess(pid: number, name: Limit, most: number): void {
  const limits = Buffer.from(BigUint64Array.of(BigInt(most), BigInt(most)).buffer);
  call("prlimit64", () => prlimit(pid, resources[name], limits, null));
}
