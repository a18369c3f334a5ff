/** Replaces secrets in responses, logs and errors (agent-server.md section 3.1). */
export const maskText = "**********";

/** Whether a value is a masked secret that a client sends back; clients may cut the mask. */
export function isMasked(value: unknown): boolean {
  return typeof value === "string" && /^\*+$/.test(value.trim());
}
