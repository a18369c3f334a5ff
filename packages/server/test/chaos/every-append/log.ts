import type { Json, TestPlatform } from "../../support/platform.ts";

/** A record as the database has it. */
export interface StoredRecord {
  listed: boolean;
  json: string;
  event: Json;
}

/**
 * Performs the next step of the user, derived from the log alone. Returns true when all is done.
 * Throws like any call when the server dies.
 */
export type UserActions = (
  call: TestPlatform["call"],
  id: string,
  log: readonly StoredRecord[],
) => Promise<boolean>;
