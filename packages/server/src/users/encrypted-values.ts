import { PlatformError } from "@sandpiper/core/errors";
import type { Vault } from "../store/vault.ts";

/**
 * Marks an encrypted value. Released clients know a carried secret by its first six characters
 * (agent-server-1.49.md section 7).
 */
const prefix = "gAAAAAsealed-v1-";

/** The text after the prefix. */
const encryptedPattern = /^[A-Za-z0-9_-]{39,200000}$/;

/** The prefix of earlier versions, whose values open pages may still carry. */
const earlierPrefix = "sealed-v1:";

/**
 * Secrets that clients carry between requests without seeing them (`X-Expose-Secrets: encrypted`,
 * `secrets_encrypted`; agent-server.md sections 3.1 and 9). Only this server decrypts them, and
 * only for the same user.
 */
export class EncryptedValues {
  readonly #vault: Pick<Vault, "encrypt" | "decrypt">;

  constructor(vault: Pick<Vault, "encrypt" | "decrypt">) {
    this.#vault = vault;
  }

  encrypt(userId: string, value: string): string {
    return prefix + Buffer.from(this.#vault.encrypt(value, getPlace(userId))).toString("base64url");
  }

  /** Decrypts a value; returns other text unchanged. Throws InvalidParameter when it cannot. */
  decrypt(userId: string, text: string): string {
    const used = [prefix, earlierPrefix].find((each) => text.startsWith(each));
    if (used === undefined) return text;
    const sealed = text.slice(used.length);
    try {
      if (encryptedPattern.test(sealed))
        return this.#vault.decrypt(Buffer.from(sealed, "base64url"), getPlace(userId));
    } catch {
      // The vault's message is about stored data; a clearer error follows.
    }
    throw new PlatformError("EncryptedSecretInvalid");
  }

  /** A copy of a JSON value with every string decrypted. Throws InvalidParameter. */
  decryptAll<Value>(userId: string, value: Value): Value {
    if (typeof value === "string") return this.decrypt(userId, value) as Value;
    if (Array.isArray(value)) return value.map((item) => this.decryptAll(userId, item)) as Value;
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, this.decryptAll(userId, item)]),
    ) as Value;
  }
}

function getPlace(userId: string): string {
  return `carried:${userId}`;
}
