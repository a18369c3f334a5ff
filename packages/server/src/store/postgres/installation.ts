import { PlatformError } from "@sandpiper/core/errors";
import { newId } from "@sandpiper/wire";
import type { Vault } from "../vault.ts";
import { type Connection, toQuery } from "./database.ts";

const place = "store:key-check";

/**
 * Returns the id of the installation whose data a database has; gives a new database an id. Throws
 * ConfigInvalid when another vault key has encrypted the data.
 */
export async function claimInstallation(
  connection: Connection,
  vault: Vault,
  address: string,
): Promise<string> {
  const insert = `INSERT INTO installation (id, key_check) VALUES ($1, $2) ON CONFLICT DO NOTHING`;
  await connection.query(toQuery(insert, [newId(), vault.encrypt("sandpiper", place)], false));
  const { rows } = await connection.query<{ id: string; key_check: Uint8Array }>(
    "SELECT id, key_check FROM installation",
  );
  const { id, key_check: check } = rows[0]!;
  try {
    vault.decrypt(check, place);
  } catch (error) {
    throw new PlatformError("DatabaseKeyWrong", { address }, { cause: error });
  }
  return id;
}
