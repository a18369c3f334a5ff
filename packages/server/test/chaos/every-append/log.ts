import type { Json, TestPlatform } from "../../support/platform.ts";

/** A record as the database has it. */
export interface Stored {
  listed: boolean;
  json: string;
  event: Json;
}

/**
 * Looks at what a conversation has come to and does what is next. It keeps nothing in mind: what the log tells was done. True when there is nothing left
 * that it wants to do. Throws what a call throws whose server dies.
 */
export type Person = (call: TestPlatform["call"], id: string, log: readonly Stored[]) => Promise<boolean>;
