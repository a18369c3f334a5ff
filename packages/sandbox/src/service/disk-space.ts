import { statfs } from "node:fs/promises";
import type { FileBounds } from "../driver.ts";

interface Amount {
  free: number;
  total: number;
}

/** Free and total bytes and files (inodes) of a filesystem. */
export interface DiskSpace {
  diskBytes: Amount;
  /** Total 0: the filesystem has no fixed number of files. */
  files: Amount;
}

/** Bytes that are kept free on a large filesystem. */
const reservedBytes = 2 ** 30;
/** Share of the bytes that is kept free on a small filesystem. */
const reservedByteShare = 0.02;
/** Files that are kept free on a large filesystem. */
const reservedFiles = 100_000;
/** Share of the files that is kept free on a small filesystem. */
const reservedFileShare = 0.1;
/** Share of all files of the filesystem that one sandbox may have. */
const sandboxFileShare = 0.25;
/** A drop of the free space by this share makes a measurement urgent. */
const urgentShare = 0.05;

/** The space of the filesystem of a folder. */
export async function getDiskSpace(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize, ffree, files } = await statfs(folder);
  return { diskBytes: { free: bavail * bsize, total: blocks * bsize }, files: { free: ffree, total: files } };
}

/** What is nearly used up on a filesystem. */
export function findScarce(space: DiskSpace | undefined): keyof FileBounds | undefined {
  if (!space) return undefined;
  const { diskBytes, files } = space;
  if (diskBytes.free < Math.min(reservedBytes, diskBytes.total * reservedByteShare)) return "diskBytes";
  return files.free < Math.min(reservedFiles, files.total * reservedFileShare) ? "files" : undefined;
}

/** True when a twentieth of the free bytes or files was used between two looks. */
export function hasShrunk(before: DiskSpace | undefined, after: DiskSpace | undefined): boolean {
  if (!before || !after) return false;
  return (["diskBytes", "files"] as const).some(
    (kind) => after[kind].free < before[kind].free * (1 - urgentShare),
  );
}

/** The files that one sandbox may have: at most a share of the filesystem's. */
export function maxFilesOf(space: DiskSpace | undefined, maxFiles: number): number {
  const total = space?.files.total ?? 0;
  return total > 0 ? Math.min(maxFiles, Math.floor(total * sandboxFileShare)) : maxFiles;
}

export function formatSize(bytes: number): string {
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(1)} GB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MB`;
}
