import { join } from "node:path";
import type { VaultKeySource } from "../../config/vault-key-source.ts";
import { createVault, openVault, type Vault } from "../vault.ts";
import { runKeyCommand } from "./key-command.ts";
import { readGivenKeyFile } from "./key-file.ts";

/**
 * Opens the vault with the key of a source. Without a source, uses the file `vault.key` of the data
 * folder; with `create`, makes the file when it is missing. Throws ConfigInvalid when the source
 * gives no key.
 */
export async function openVaultOf(
  source: VaultKeySource | undefined,
  { dataDir, create }: { dataDir: string; create: boolean },
): Promise<Vault> {
  switch (source?.from) {
    case undefined:
      return openVault(ownKeyFile(dataDir), { create });
    case "file":
      return createVault(await readGivenKeyFile(source.path), describeKeySource(source, dataDir));
    case "variable":
      return createVault(source.key, describeKeySource(source, dataDir));
    case "command":
      return createVault(await runKeyCommand(source.argv), describeKeySource(source, dataDir));
  }
}

/**
 * Names the source in the words of a sentence, for example `the key of SANDPIPER_VAULT_KEY`; never
 * names the key.
 */
export function describeKeySource(source: VaultKeySource | undefined, dataDir: string): string {
  switch (source?.from) {
    case undefined:
      return `the key file ${ownKeyFile(dataDir)}`;
    case "file":
      return `the key file ${source.path} (SANDPIPER_VAULT_KEY_FILE)`;
    case "variable":
      return "the key of SANDPIPER_VAULT_KEY";
    case "command":
      return `the key that ${source.argv[0]} prints (SANDPIPER_VAULT_KEY_COMMAND)`;
  }
}

function ownKeyFile(dataDir: string): string {
  return join(dataDir, "vault.key");
}
