import { closeSync, openSync, readdirSync, readlinkSync, readSync, statSync } from "node:fs";
import { getMemoryDevice } from "../../../kernel/files.ts";
import { runProgram } from "../../common/run-program.ts";

const deletedTimeoutMs = 20_000;
/** Up to these counts a look from here takes less time than the start of a process. */
const fewProcesses = 8;
const fewDescriptors = 64;
const fewMapBytes = 65_536;
const deletedMark = " (deleted)";

/** Arguments: least owner; ignored devices, between commas; process ids. Counts a file once. */
const script = `owner=$1 devices=$2; shift 2
for pid; do printf '/proc/%s/fd\\0/proc/%s/map_files\\0' "$pid" "$pid"; done |
xargs -0 -n 64 sh -c 'exec find "$@" -mindepth 1 -maxdepth 1 -lname "* (deleted)" -print0' sh 2>/dev/null |
xargs -0 -r stat -L -c '%h %u %d %i %b %B' 2>/dev/null |
awk -v owner="$owner" -v devices=",$devices," '
  $1 == 0 && $2 >= owner && index(devices, "," $3 ",") == 0 && !(($3, $4) in seen) { seen[$3, $4]; sum += $5 * $6 }
  END { printf "%.0f\\n", sum }'`;

let memory: number | undefined;

/**
 * Bytes on disk of deleted files of owners from the host id `idBase` on that processes of a sandbox
 * hold open or mapped. Infinity when there are too many descriptors.
 */
export async function deletedOpenBytes(pids: number[], idBase: number): Promise<number> {
  if (pids.length <= fewProcesses && !pids.some(mayHoldDeleted)) return 0;
  memory ??= getMemoryDevice();
  const devices = [memory, ...memoryFolders(pids)].join(",");
  const argv = ["sh", "-c", script, "sh", String(idBase), devices, ...pids.map(String)];
  const result = await runProgram(argv, { timeoutMs: deletedTimeoutMs });
  const sum = /^(\d+)\n$/.exec(result.output)?.[1];
  return sum === undefined ? Number.POSITIVE_INFINITY : Number(sum);
}

/** False only when the process certainly holds no deleted file. */
function mayHoldDeleted(pid: number): boolean {
  try {
    const folder = `/proc/${pid}/fd`;
    const descriptors = readdirSync(folder);
    if (descriptors.length > fewDescriptors) return true;
    return descriptors.some((name) => isDeleted(`${folder}/${name}`)) || mayMapDeleted(pid);
  } catch {
    // The process has ended.
    return false;
  }
}

/** Also true when the list of mappings is longer than `fewMapBytes`. */
function mayMapDeleted(pid: number): boolean {
  const text = Buffer.alloc(fewMapBytes);
  const fd = openSync(`/proc/${pid}/maps`, "r");
  try {
    // The kernel returns about 4 KB at a time.
    for (let length = 0; length < text.length; ) {
      const more = readSync(fd, text, length, text.length - length, null);
      if (more === 0) return text.subarray(0, length).includes(`${deletedMark}\n`);
      length += more;
    }
    return true;
  } finally {
    closeSync(fd);
  }
}

function isDeleted(path: string): boolean {
  try {
    return readlinkSync(path).endsWith(deletedMark);
  } catch {
    return false;
  }
}

/** Devices of the tmpfs folders inside the sandbox. */
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
