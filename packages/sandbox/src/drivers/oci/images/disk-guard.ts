import { statfs } from "node:fs/promises";

const gibibyte = 2 ** 30;
const pollMs = 100;

/** Bytes of a filesystem that images must leave free, because the server must be able to write. */
function reserveBytes(totalBytes: number): number {
  return Math.min(gibibyte, totalBytes * 0.05);
}

/** Bytes of the filesystem of `path` that images may still use. */
export async function getUsableSpace(path: string): Promise<number> {
  const { bavail, blocks, bsize, files, ffree } = await statfs(path);
  if (files > 0 && ffree < files * 0.02) return 0;
  return bavail * bsize - reserveBytes(blocks * bsize);
}

/** Calls `onFull` once when the filesystem of `path` fills up: images may declare false sizes. */
export function guardDisk(path: string, onFull: () => void): { end: () => void } {
  let ended = false;
  const check = async () => {
    const space = await getUsableSpace(path).catch(() => 1);
    if (ended) return;
    if (space <= 0) return onFull();
    timer = setTimeout(check, pollMs);
  };
  let timer = setTimeout(check, pollMs);
  return {
    end: () => {
      ended = true;
      clearTimeout(timer);
    },
  };
}
