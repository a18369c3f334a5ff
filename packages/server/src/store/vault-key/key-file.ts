import { randomBytes } from "node:crypto";
import { chmod, link, mkdir, open, readFile, stat, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { parseVaultKey, vaultKeyBytes } from "../../config/vault-key-source.ts";

/** Most bytes of a file that can be a key, with or without a newline at its end. */
const maxFileBytes = 128;
/**
 * Permissions that a file of an operator must not have. Its group may read it, because Kubernetes
 * gives a file to a pod's user in this way.
 */
const forbiddenBits = { own: 0o077, given: 0o027 };

/** Creates the file atomically, complete and synced; an existing file stays. */
export async function createKeyFile(keyFile: string): Promise<void> {
  const folder = dirname(keyFile);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const draft = `${keyFile}.${randomBytes(6).toString("hex")}`;
  const file = await open(draft, "wx", 0o600);
  try {
    await file.writeFile(randomBytes(vaultKeyBytes));
    await file.sync();
    await file.close();
    await chmod(draft, 0o600);
    await link(draft, keyFile).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await unlink(draft);
  }
  const directory = await open(folder, "r");
  await directory.sync().finally(() => directory.close());
}

/** Reads the key file of a data folder: 32 random bytes. Throws ConfigInvalid. */
export async function readOwnKeyFile(keyFile: string): Promise<Uint8Array> {
  const info = await stat(keyFile).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    throw new PlatformError("KeyFileMissing", { keyFile });
  });
  refuseExposed(keyFile, info.mode & forbiddenBits.own && info.mode);
  if (info.size !== vaultKeyBytes)
    throw new PlatformError("KeyFileSize", { keyFile, size: info.size, expected: vaultKeyBytes });
  return readFile(keyFile);
}

/**
 * Reads the file that SANDPIPER_VAULT_KEY_FILE names: 32 bytes, or their base64 or hexadecimal
 * text. Never creates the file, because another node would then create another key. Throws
 * ConfigInvalid.
 */
export async function readGivenKeyFile(keyFile: string): Promise<Uint8Array> {
  const info = await stat(keyFile).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") throw new PlatformError("GivenKeyFileMissing", { keyFile });
    throw new PlatformError("GivenKeyFileUnreadable", { keyFile, reason: error.code ?? error.message });
  });
  refuseExposed(keyFile, info.mode & forbiddenBits.given && info.mode);
  if (!info.isFile() || info.size > maxFileBytes) throw new PlatformError("GivenKeyFileInvalid", { keyFile });
  const content = await readFile(keyFile).catch((error: NodeJS.ErrnoException) => {
    throw new PlatformError("GivenKeyFileUnreadable", { keyFile, reason: error.code ?? error.message });
  });
  const key = parseKeyOutput(content);
  if (!key) throw new PlatformError("GivenKeyFileInvalid", { keyFile });
  return key;
}

/** Parses a key: 32 bytes, or a text with spaces around it; undefined for any other content. */
export function parseKeyOutput(output: Uint8Array): Uint8Array | undefined {
  if (output.length === vaultKeyBytes) return output;
  return parseVaultKey(Buffer.from(output).toString("latin1").trim());
}

function refuseExposed(keyFile: string, mode: number): void {
  if (mode !== 0) throw new PlatformError("KeyFileExposed", { keyFile, mode: (mode & 0o777).toString(8) });
}
