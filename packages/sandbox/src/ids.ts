import { randomBytes } from "node:crypto";

/** `sbx-` and 24 letters and digits from 120 random bits. */
export function newSandboxId(): string {
  const alphabet = "abcdefghijklmnopqrstuvwxyz234567";
  return `sbx-${Array.from(randomBytes(24), (byte) => alphabet[byte & 31]).join("")}`;
}
