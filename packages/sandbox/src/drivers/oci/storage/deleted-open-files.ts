import { closeSync, openSync, readdirSync, readlinkSync, readSync, statSync } from "node:fs";
import { memoryDevice } from "../../../kernel/memfd.ts";
import { runCommand } from "../container/runtime.ts";

const timeoutMs = 20_000;
/** Up to this many processes, and of each descriptors and bytes about mappings, are looked at here, in less time than a process for it takes to start. */
const fewProcesses = 8;
const fewDescriptors = 64;
const fewBytes = 65_536;
const mark = " (deleted)";

/** First word: least owner; second word: devices that do not count, between commas; then process ids. Files are counted once. */
const script = `owner=$1 devices=$2; shift 2
for pid; do printf '/proc/%s/fd\\0/proc/%s/map_files\\0' "$pid" "$pid"; done |
xargs -0 -n 64 sh -c 'exec find "$@" -mindepth 1 -maxdepth 1 -lname "* (deleted)" -print0' sh 2>/dev/null |
xargs -0 -r stat -L -c '%h %u %d %i %b %B' 2>/dev/null |
awk -v owner="$owner" -v devices=",$devices," '
  $1 == 0 && $2 >= owner && index(devices, "," $3 ",") == 0 && !(($3, $4) in seen) { seen[$3, $4]; sum += $5 * $6 }
  END { printf "%.0f\\n", sum }'`;

let memory: number | undefined;

/**
 * Bytes on disk of files that processes of a sandbox hold open or mapped although they have no name any more: no walk through folders finds
 * them. Only files of owners from the host id `idBase` on. Infinity when there are too many descriptors to look at in 20 s.
 */
export async function unnamedBytes(pids: number[], idBase: number): Promise<number> {
  if (pids.length <= fewProcesses && !pids.some(mayHoldUnnamed)) return 0;
  memory ??= memoryDevice();
  const devices = [memory, ...memoryFolders(pids)].join(",");
  const result = await runCommand(["sh", "-c", script, "sh", String(idBase), devices, ...pids.map(String)], {
    timeoutMs,
  });
  const sum = /^(\d+)\n$/.exec(result.output)?.[1];
  return sum === undefined ? Number.POSITIVE_INFINITY : Number(sum);
}

/** False only when there is surely nothing. */
function mayHoldUnnamed(pid: number): boolean {
  try {
    const folder = `/proc/${pid}/fd`;
    const descriptors = readdirSync(folder);
    if (descriptors.length > fewDescriptors) return true;
    return descriptors.some((name) => isMarked(`${folder}/${name}`)) || hasMarkedMapping(pid);
  } catch {
    // The process has ended.
    return false;
  }
}

/** Also true for more mappings than are read. */
function hasMarkedMapping(pid: number): boolean {
  const text = Buffer.alloc(fewBytes);
  const fd = openSync(`/proc/${pid}/maps`, "r");
  try {
    // The kernel gives some 4 KB at a time.
    for (let length = 0; length < text.length; ) {
      const more = readSync(fd, text, length, text.length - length, null);
      if (more === 0) return text.subarray(0, length).includes(`${mark}\n`);
      length += more;
    }
    return true;
  } finally {
    closeSync(fd);
  }
}

function isMarked(path: string): boolean {
  try {
    return readlinkSync(path).endsWith(mark);
  } catch {
    return false;
  }
}

/** Devices of the folders inside that keep their files in memory. */
function memoryFolders(pids: number[]): number[] {
  for (const pid of pids) {
    try {
      return ["dev", "dev/shm"].map((folder) => statSync(`/proc/${pid}/root/${folder}`).dev);
    } catch {
      // The process has ended.
    }
  }
  return [];
}
