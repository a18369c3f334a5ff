import { hash } from "node:crypto";

/**
 * The form in which keys are stored and looked up. A plain SHA-256 is enough: keys are random with 128 bits or more, so there is
 * nothing to guess that a slow key derivation would protect, and a request must not cost one. The look-up is by hash,
 * so its timing tells nothing about a stored key.
 */
export function hashKey(key: string): Buffer {
  return hash("sha256", key, "buffer");
}
