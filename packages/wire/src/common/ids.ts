import { randomUUID } from "node:crypto";

/** The pattern of an id in either wire form, for JSON schemas. */
export const idPattern = "^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$";

const uuidPattern = new RegExp(idPattern);

/** A new random id in the dashed form, the form in which ids are kept inside the server. */
export function newId(): string {
  return randomUUID();
}

/**
 * Parses an id in either wire form (32 hex digits, or dashed). Returns the dashed lower-case form,
 * undefined when the text is not a UUID (app-server.md section 0, row "ids").
 */
export function parseId(text: string): string | undefined {
  if (!uuidPattern.test(text)) return undefined;
  const hex = text.replaceAll("-", "").toLowerCase();
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Formats an app-server id: 32 lower-case hex digits without dashes (app-server.md section 0). */
export function hexId(id: string): string {
  return id.replaceAll("-", "").toLowerCase();
}
