import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";

/** With so many attempts, several writers of one row all come through in practice. */
const maxAttempts = 30;

/** After these, writers wait for a random part of some ms, so that they do not collide again. */
const freeAttempts = 3;
const longestWaitMs = 20;

/**
 * Repeats a change that was made from what was read and is only stored when nobody has changed that
 * since. `attempt` gives undefined when somebody has. Throws StorageBusy when others always come
 * first, and what `attempt` throws.
 */
export async function compareAndSet<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (let number = 1; number <= maxAttempts; number++) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (number > freeAttempts) await sleep(Math.random() * longestWaitMs);
  }
  throw new PlatformError("RowContended");
}
