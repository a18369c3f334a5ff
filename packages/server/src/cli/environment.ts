import type { Environment } from "../config/variable.ts";

/** Variables with secrets that only this process needs. */
const hidden = ["SANDPIPER_VAULT_KEY", "SANDPIPER_DATABASE_URL"] as const;

/** The removed variables; they are kept here because no program may inherit them. */
const values = new Map<string, string>();

/**
 * Removes the key of the vault and the address of the database from the environment, so that no
 * program that this process starts (git, a pager, npm, tools for images) inherits them. The process
 * must call this function before it does anything else.
 */
export function hideSecrets(): void {
  for (const name of hidden) {
    const value = process.env[name];
    if (value !== undefined && !values.has(name)) values.set(name, value);
    delete process.env[name];
  }
}

/** Returns the environment with which the process was started. */
export function getEnvironment(): Environment {
  return values.size === 0 ? process.env : { ...process.env, ...Object.fromEntries(values) };
}
