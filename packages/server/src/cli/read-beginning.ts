import { constants } from "node:fs";
import { open } from "node:fs/promises";

export interface Beginning {
  bytes: Buffer;
  /** The file has no more. */
  isWhole: boolean;
}

/**
 * The first bytes of a regular file; undefined for everything else, links included, and for files
 * that cannot be read. A pipe or a device never makes this wait.
 */
export async function readBeginning(path: string, maxBytes: number): Promise<Beginning | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
  const file = await open(path, flags).catch(() => undefined);
  if (!file) return undefined;
  try {
    const found = await file.stat();
    if (!found.isFile()) return undefined;
    const bytes = Buffer.alloc(Math.min(found.size, maxBytes));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    return { bytes: bytes.subarray(0, bytesRead), isWhole: found.size <= maxBytes };
  } catch {
    return undefined;
  } finally {
    await file.close();
  }
}
