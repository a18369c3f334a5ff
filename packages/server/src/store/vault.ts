import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import { createKeyFile, readOwnKeyFile } from "./vault-key/key-file.ts";

/** Encrypts stored data. A text is decrypted only with the same key and place. */
export interface Vault {
  /** `place` names where the result is stored, for example `settings:<userId>`. */
  encrypt(text: string, place: string): Uint8Array;
  /** Throws ConfigInvalid when the key or the place differs, or the data has changed. */
  decrypt(sealed: Uint8Array, place: string): string;
  /**
   * A key of 32 bytes for another purpose, always the same; it reveals nothing about the vault's
   * key.
   */
  derive(purpose: string): Uint8Array;
}

const nonceBytes = 12;
const tagBytes = 16;
/** First byte of encrypted data: AES-256-GCM, 96 bit random nonce, 128 bit tag at the end. */
const version = 1;

/**
 * Opens a vault with a key file (32 random bytes, mode 0600). `create` makes a missing file: use it
 * only when nothing is encrypted yet. Throws ConfigInvalid when the file is missing, open to
 * others, or of a wrong size.
 */
export async function openVault(keyFile: string, options: { create: boolean }): Promise<Vault> {
  if (options.create) await createKeyFile(keyFile);
  return createVault(await readOwnKeyFile(keyFile), `the key file ${keyFile}`);
}

/** A vault with a key of 32 bytes. Errors name its source. */
export function createVault(key: Uint8Array, source = "the key"): Vault {
  return {
    derive: (purpose) => new Uint8Array(hkdfSync("sha256", key, "", `sandpiper ${purpose}`, 32)),

    encrypt(text, place) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(associatedData(place));
      return Buffer.concat([
        Uint8Array.of(version),
        nonce,
        cipher.update(text, "utf8"),
        cipher.final(),
        cipher.getAuthTag(),
      ]);
    },

    decrypt(sealed, place) {
      try {
        if (sealed[0] !== version || sealed.length < 1 + nonceBytes + tagBytes)
          throw new Error("unknown format");
        const nonce = sealed.subarray(1, 1 + nonceBytes);
        const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
        decipher.setAAD(associatedData(place)).setAuthTag(sealed.subarray(-tagBytes));
        const text = decipher.update(sealed.subarray(1 + nonceBytes, -tagBytes));
        return Buffer.concat([text, decipher.final()]).toString("utf8");
      } catch (error) {
        throw new PlatformError("DecryptionFailed", { place, source }, { cause: error });
      }
    },
  };
}

function associatedData(place: string): Buffer {
  return Buffer.from(`sandpiper:${version}:${place}`);
}
