import { PlatformError } from "@sandpiper/core/errors";
import type { Vault } from "../store/vault.ts";

/** How a sealed value begins, so that it is told from any other text. */
const prefix = "sealed-v1:";

/** What follows the mark. */
const encryptedPattern = /^[A-Za-z0-9_-]{39,200000}$/;

/**
 * Secrets that leave the server sealed: a client that may not see them carries them from one request to another (`X-Expose-Secrets: encrypted`,
 * `secrets_encrypted`; agent-server.md sections 3.1 and 9). They open on the server that sealed them, and for the same user only.
 */
export class EncryptedValues {
  readonly #vault: Pick<Vault, "encrypt" | "decrypt">;

  constructor(vault: Pick<Vault, "encrypt" | "decrypt">) {
    this.#vault = vault;
  }

  encrypt(userId: string, value: string): string {
    return prefix + Buffer.from(this.#vault.encrypt(value, getPlace(userId))).toString("base64url");
  }

  /** The value in a sealed text; any other text is its own value. Throws InvalidParameter for one that another user or server got, or that was changed. */
  decrypt(userId: string, text: string): string {
    if (!text.startsWith(prefix)) return text;
    const sealed = text.slice(prefix.length);
    try {
      if (encryptedPattern.test(sealed))
        return this.#vault.decrypt(Buffer.from(sealed, "base64url"), getPlace(userId));
    } catch {
      // It is told below; the vault's own words are about stored data.
    }
    throw new PlatformError(
      "InvalidParameter",
      "An encrypted secret cannot be opened: read it again from this server.",
    );
  }

  /** A copy of a JSON value with every sealed text in it opened. Throws InvalidParameter. */
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
