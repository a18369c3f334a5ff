import { statfs } from "node:fs/promises";

const gibibyte = 2 ** 30;
const everyMs = 100;

/** What stays free of a filesystem, bytes: a server that cannot write any more is worse than an image that cannot be had. */
function reserve(totalBytes: number): number {
  return Math.min(gibibyte, totalBytes * 0.05);
}

/** Bytes of the filesystem of `path` that may still be used. */
export async function usableSpace(path: string): Promise<number> {
  const { bavail, blocks, bsize, files, ffree } = await statfs(path);
  if (files > 0 && ffree < files * 0.02) return 0;
  return bavail * bsize - reserve(blocks * bsize);
}

/** Calls `onFull` once when the filesystem of `path` runs full: what images declare about their size is not to be trusted. */
export function guardDisk(path: string, onFull: () => void): { end: () => void } {
  let ended = false;
  const look = async () => {
    const space = await usableSpace(path).catch(() => 1);
    if (ended) return;
    if (space <= 0) return onFull();
    timer = setTimeout(look, everyMs);
  };
  let timer = setTimeout(look, everyMs);
  return {
    end: () => {
      ended = true;
      clearTimeout(timer);
    },
  };
}
