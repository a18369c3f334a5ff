import { PlatformError } from "@sandpiper/core/errors";
import pg from "pg";
import { describeAddress } from "./address.ts";
import { connectionSettings } from "./database.ts";
import { type DatabaseError, isAway } from "./errors.ts";

export const oldestVersion = 15;

/** What a database says about itself. */
export interface DatabaseFacts {
  /** Version of PostgreSQL, such as `15.18`. */
  version: string;
  encoding: string;
  /**
   * How far the clock of the database is ahead of this machine's clock, ms. The error is at most
   * half of the round trip.
   */
  aheadMs: number;
}

/**
 * Opens one connection to a database for the start of a server, and checks the database. Throws
 * ConfigInvalid, whose message says what to change.
 */
export async function connectFirst(url: string): Promise<{ client: pg.Client; facts: DatabaseFacts }> {
  const address = describeAddress(url);
  let client: pg.Client;
  try {
    client = new pg.Client(connectionSettings(url));
    client.on("error", () => {});
    await client.connect();
  } catch (error) {
    throw toRefusal(error, address);
  }
  try {
    const facts = await readFacts(client);
    if (Number.parseInt(facts.version, 10) < oldestVersion)
      throw new PlatformError("DatabaseTooOld", { address, version: facts.version, oldest: oldestVersion });
    if (facts.encoding !== "UTF8")
      throw new PlatformError("DatabaseEncoding", { address, encoding: facts.encoding });
    return { client, facts };
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}

async function readFacts(client: pg.Client): Promise<DatabaseFacts> {
  const sent = Date.now();
  const { rows } = await client.query<{ version: string; encoding: string; now: number }>(
    `SELECT split_part(current_setting('server_version'), ' ', 1) AS version, current_setting('server_encoding') AS encoding,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now`,
  );
  const { version, encoding, now } = rows[0]!;
  return { version, encoding, aheadMs: now - (sent + Date.now()) / 2 };
}

function toRefusal(error: unknown, address: string): PlatformError {
  const { code = "", message } = error as DatabaseError;
  // Class 28: authentication; 3D000: no such database; 42501: no right to connect.
  const isRefused = /^(28...|3D000|42501)$/.test(code);
  const reason = message || code || "no answer";
  if (isRefused) return new PlatformError("DatabaseRefused", { address, reason }, { cause: error });
  const shown = isAway(error) || code !== "" ? reason : "the address cannot be read";
  return new PlatformError("DatabaseUnreachable", { address, reason: shown }, { cause: error });
}
