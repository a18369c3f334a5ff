import { join } from "node:path";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Config } from "../config/config.ts";
import { sqliteStoreExists } from "../store/sqlite/folder.ts";
import { checkKeyOfFile } from "../store/sqlite/key-check.ts";
import { describeKeySource, openVaultOf } from "../store/vault-key/open-vault.ts";
import { type DoctorFinding, finding } from "./finding.ts";

const name = "vault key";

/**
 * Checks that the key of the vault exists and opens the encrypted data of the data folder. Runs the
 * command of SANDPIPER_VAULT_KEY_COMMAND, and creates no key.
 */
export async function checkVaultKey({ vaultKey, dataDir }: Config): Promise<DoctorFinding> {
  const source = describeKeySource(vaultKey, dataDir);
  try {
    const hasStore = sqliteStoreExists(dataDir);
    if (!vaultKey && !hasStore) return finding(name, true, true, "will be created in the data folder");
    const vault = await openVaultOf(vaultKey, { dataDir, create: false });
    if (!hasStore) return finding(name, true, true, source);
    checkKeyOfFile(join(dataDir, "store", "sandpiper.db"), vault);
    return finding(name, true, true, `${source} opens the data folder`);
  } catch (error) {
    if (error instanceof PlatformError) return finding(name, true, false, "cannot be used", error.message);
    const advice = "Run `sandpiper doctor` as the user of the server.";
    return finding(name, false, false, `not checked (${errorText(error)})`, advice);
  }
}
