import type { Environment } from "../config/variable.ts";

const keyVariable = "SANDPIPER_VAULT_KEY";

/** What the environment contained; kept here because no program may inherit it. */
let vaultKey: string | undefined;

/**
 * Removes the key of the vault from the environment, so that no program that this process starts
 * (git, a pager, npm, tools for images) inherits it. It must come first.
 */
export function hideVaultKey(): void {
  vaultKey ??= process.env[keyVariable];
  delete process.env[keyVariable];
}

/** The environment that the process was started with. */
export function getEnvironment(): Environment {
  return vaultKey === undefined ? process.env : { ...process.env, [keyVariable]: vaultKey };
}
