import { existsSync } from "node:fs";
import { type FileHandle, open, readdir, readlink, stat } from "node:fs/promises";

/**
 * Memory that the kernel holds for the processes of a sandbox and that no control group counts:
 * messages in netlink sockets, file locks and compiled system call filters.
 */

/** A lock of a range of a file. */
const lockBytes = 192;
/** Instructions of the largest filter, as they were given and compiled. */
const filterBytes = 80 * 1_024;
/** Every process has one from its start. */
const ownFilters = 1;

/** When the list of all locks of the machine is shorter, locks are not looked at, bytes. */
const fewLocks = 2 ** 20;
/** Time for one sandbox, ms. */
const budgetMs = 10_000;

export interface KernelMemoryOptions {
  /** Nothing more is counted above this, bytes. */
  bound: number;
  /** Count buffers of TCP and UDP sockets too, because no control group does. */
  sockets?: boolean;
}

/**
 * Bytes of such memory that the processes of a sandbox hold. Infinity when there is too much to
 * count in time.
 */
export async function measureKernelMemory(
  members: readonly number[],
  { bound, sockets = false }: KernelMemoryOptions,
): Promise<number> {
  const end = performance.now() + budgetMs;
  let bytes = 0;
  const isOver = () => bytes > bound || performance.now() > end;
  // All processes of a sandbox are in one network namespace.
  const network = members.find((pid) => existsSync(`/proc/${pid}/net/netlink`));
  if (network === undefined) return 0;
  bytes += await sumLines(`/proc/${network}/net/netlink`, netlinkBytes, isOver);
  if (sockets)
    for (const name of ["tcp", "tcp6", "udp", "udp6"])
      bytes += await sumLines(`/proc/${network}/net/${name}`, queueBytes, isOver);
  for (const pid of members) {
    if (isOver()) break;
    for (const task of await list(`/proc/${pid}/task`)) {
      bytes += await sumLines(`/proc/${pid}/task/${task}/status`, filtersBytes, isOver);
      if (isOver()) break;
    }
  }
  if (!isOver() && (await hasManyLocks())) {
    for (const pid of members) {
      for (const fd of await list(`/proc/${pid}/fdinfo`)) {
        bytes += await sumLines(`/proc/${pid}/fdinfo/${fd}`, locksBytes, isOver);
        if (isOver()) break;
      }
    }
  }
  return performance.now() > end && bytes <= bound ? Number.POSITIVE_INFINITY : bytes;
}

/**
 * Bytes of the files in memory (memfd) that processes have open. They count as memory of no process
 * until they are mapped, and twice then.
 */
export async function measureMemoryFiles(members: readonly number[]): Promise<number> {
  const end = performance.now() + budgetMs;
  const files = new Map<number, number>();
  for (const pid of members) {
    for (const fd of await list(`/proc/${pid}/fd`)) {
      if (performance.now() > end) return Number.POSITIVE_INFINITY;
      const path = `/proc/${pid}/fd/${fd}`;
      try {
        if (!(await readlink(path)).startsWith("/memfd:")) continue;
        const { ino, blocks } = await stat(path);
        files.set(ino, blocks * 512);
      } catch {
        // It has been closed.
      }
    }
  }
  return [...files.values()].reduce((sum, bytes) => sum + bytes, 0);
}

/** True when the limit of a sandbox's memory counts the buffers of its sockets too. */
export function isCgroupV2(): boolean {
  return existsSync("/sys/fs/cgroup/cgroup.controllers");
}

/** Columns 5 and 6 of /proc/net/netlink. */
function netlinkBytes(line: string): number {
  const [, , , , received, sent] = line.split(/\s+/, 6);
  return (Number(received) || 0) + (Number(sent) || 0);
}

/** Column 5 of /proc/net/tcp and udp: `tx:rx`, hexadecimal. */
function queueBytes(line: string): number {
  const [, sent = "0", received = "0"] = /^\s*\d+: \S+ \S+ \S+ (\w+):(\w+)/.exec(line) ?? [];
  return Number.parseInt(sent, 16) + Number.parseInt(received, 16);
}

function filtersBytes(line: string): number {
  if (!line.startsWith("Seccomp_filters:")) return 0;
  return Math.max(0, Number(line.slice(16)) - ownFilters) * filterBytes;
}

function locksBytes(line: string): number {
  return line.startsWith("lock:") ? lockBytes : 0;
}

async function hasManyLocks(): Promise<boolean> {
  let length = 0;
  await sumLines(
    "/proc/locks",
    (line) => {
      length += line.length + 1;
      return 0;
    },
    () => length > fewLocks,
  );
  return length > fewLocks;
}

/** Reads a file in pieces until `isOver`; 0 when it does not exist. */
async function sumLines(
  path: string,
  count: (line: string) => number,
  isOver: () => boolean,
): Promise<number> {
  let sum = 0;
  let file: FileHandle | undefined;
  try {
    file = await open(path);
    const piece = Buffer.alloc(16_384);
    for (let rest = ""; !isOver(); ) {
      const { bytesRead } = await file.read(piece, 0, piece.length, null);
      if (bytesRead === 0) return sum + count(rest);
      const lines = (rest + piece.toString("latin1", 0, bytesRead)).split("\n");
      rest = lines.pop()!;
      for (const line of lines) sum += count(line);
    }
  } catch {
    // The process has ended.
  } finally {
    await file?.close();
  }
  return sum;
}

async function list(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []);
}
