import { utimes } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

/** Shorter than the age at which `scripts/bundle.ts` removes builds, ms. */
const intervalMs = 6 * 3_600_000;

/**
 * Marks the bundle of this process as used, so that a later build leaves it: a server loads parts
 * of its bundle long after the start.
 */
export function keepBundle(): void {
  const folder = dirname(fileURLToPath(import.meta.url));
  const mark = () => {
    // A user who may not write there cannot remove the bundle either.
    utimes(folder, new Date(), new Date()).catch(() => {});
  };
  mark();
  setInterval(mark, intervalMs).unref();
}
