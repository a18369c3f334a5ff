import type { Kysely } from "kysely";
import type { Vault } from "../vault.ts";
import type { Reader } from "./reader.ts";
import type { Tables } from "./tables.ts";
import type { WriterClient } from "./writer-client.ts";

/** Shared by all parts of the SQLite store. */
export interface StoreContext {
  reader: Reader;
  writer: WriterClient;
  build: Kysely<Tables>;
  vault: Vault;
  /** Milliseconds since the epoch. */
  clock: () => number;
}
