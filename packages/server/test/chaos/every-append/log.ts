import type { Json, TestPlatform } from "../../support/platform.ts";

/** A record as the database has it. */
export interface Stored {
  listed: boolean;
  json: string;
  event: Json;
}

/**
 * Does the person's next step, derived from the log alone. Returns true when nothing is left to do.
 * Throws like any call when the server dies.
 */
export type Person = (call: TestPlatform["call"], id: string, log: readonly Stored[]) => Promise<boolean>;
