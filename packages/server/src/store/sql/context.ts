import type { Kysely } from "kysely";
import type { Vault } from "../vault.ts";
import type { SqlDialect } from "./dialect.ts";
import type { SqlReader, SqlWriter } from "./engine.ts";
import type { Tables } from "./tables.ts";

/** Shared by the parts of a store on a SQL database. */
export interface SqlContext {
  reader: SqlReader;
  writer: SqlWriter;
  build: Kysely<Tables>;
  dialect: SqlDialect;
  vault: Vault;
  /** Milliseconds since the epoch. */
  clock: () => number;
}
