import type { Environment } from "../config/variable.ts";

/** Variables with secrets that only this process needs. */
const hidden = ["SANDPIPER_VAULT_KEY", "SANDPIPER_DATABASE_URL"] as const;

/** What the environment contained; kept here because no program may inherit it. */
const values = new Map<string, string>();

/**
 * Removes the key of the vault and the address of the database from the environment, so that no
 * program that this process starts (git, a pager, npm, tools for images) inherits them. It must
 * come first.
 */
export function hideSecrets(): void {
  for (const name of hidden) {
    const value = process.env[name];
    if (value !== undefined && !values.has(name)) values.set(name, value);
    delete process.env[name];
  }
}

/** The environment that the process was started with. */
export function getEnvironment(): Environment {
  return values.size === 0 ? process.env : { ...process.env, ...Object.fromEntries(values) };
}
