import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";

/**
 * Most attempts to change a row; in practice several writers of one row all succeed within them.
 */
const maxAttempts = 30;

/**
 * Attempts without a delay; later attempts wait for a random part of some ms, so that writers do
 * not collide again.
 */
const freeAttempts = 3;
const longestWaitMs = 20;

/**
 * Repeats a change until it is stored. `attempt` reads a row, makes the change and stores it only
 * when nobody else has changed the row since the read; otherwise it returns undefined. Throws
 * StorageBusy when somebody else changes the row at every attempt, and what `attempt` throws.
 */
export async function compareAndSet<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (let number = 1; number <= maxAttempts; number++) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (number > freeAttempts) await sleep(Math.random() * longestWaitMs);
  }
  throw new PlatformError("RowContended");
}
