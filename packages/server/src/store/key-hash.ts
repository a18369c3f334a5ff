import { hash } from "node:crypto";

/**
 * Hashes a key for storage and look-up. Keys have at least 128 random bits, so SHA-256 is enough
 * and no slow key derivation is needed. The timing of a look-up by hash reveals nothing about a
 * key.
 */
export function hashKey(key: string): Buffer {
  return hash("sha256", key, "buffer");
}
