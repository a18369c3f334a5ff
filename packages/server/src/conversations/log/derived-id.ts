import { createHash } from "node:crypto";

/** An id in the dashed form that follows from another one: who derives it again, after a crash too, gets the same. */
export function deriveId(purpose: string, from: string): string {
  const hex = createHash("sha256").update(`sandpiper ${purpose} ${from}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
