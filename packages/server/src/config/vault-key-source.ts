import { PlatformError } from "@sandpiper/core/errors";

/** The source of the vault's key when that is not the file `vault.key` of the data folder. */
export type VaultKeySource =
  | { from: "file"; path: string }
  | { from: "variable"; key: Uint8Array }
  | { from: "command"; argv: readonly string[] };

/** Size of a key, bytes. */
export const vaultKeyBytes = 32;

/** Most characters of the text that names a command. */
const maxCommandLength = 4_096;

/**
 * Parses a key of 32 bytes: 64 hexadecimal digits, or base64 in either alphabet; undefined for any
 * other text.
 */
export function parseVaultKey(text: string): Uint8Array | undefined {
  if (/^[0-9A-Fa-f]{64}$/.test(text)) return Buffer.from(text, "hex");
  return /^[\w+/-]{43}=?$/.test(text) ? Buffer.from(text, "base64") : undefined;
}

/**
 * Parses a command: words that spaces separate, or a JSON array for words that contain spaces. No
 * shell reads it. Undefined for any other text.
 */
export function parseCommand(text: string): string[] | undefined {
  if (text.length > maxCommandLength || text.includes("\0")) return undefined;
  const words = text.startsWith("[") ? parseWords(text) : text.split(/\s+/);
  return words?.[0] ? words : undefined;
}

function parseWords(text: string): string[] | undefined {
  try {
    const words: unknown = JSON.parse(text);
    return Array.isArray(words) && words.every((word) => typeof word === "string") ? words : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the source that the variables name; undefined: the data folder. Throws ConfigInvalid when
 * several variables are set, because all but one would silently have no effect.
 */
export function chooseVaultKeySource(given: {
  file: string | undefined;
  key: Uint8Array | undefined;
  command: readonly string[] | undefined;
}): VaultKeySource | undefined {
  const set = [
    given.file !== undefined && "SANDPIPER_VAULT_KEY_FILE",
    given.key && "SANDPIPER_VAULT_KEY",
    given.command && "SANDPIPER_VAULT_KEY_COMMAND",
  ].filter((name) => typeof name === "string");
  if (set.length > 1) throw new PlatformError("VaultKeySourcesConflict", { first: set[0]!, second: set[1]! });
  if (given.file !== undefined) return { from: "file", path: given.file };
  if (given.key) return { from: "variable", key: given.key };
  return given.command && { from: "command", argv: given.command };
}
