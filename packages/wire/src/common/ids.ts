import { randomUUID } from "node:crypto";

const uuidPattern = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** A new random id in the dashed form, the form in which ids are kept inside the server. */
export function newId(): string {
  return randomUUID();
}

/**
 * Reads an id in either wire form (32 hex digits, or dashed).
 * Gives the dashed lower-case form, or undefined when the text is no UUID (app-server.md section 0, row "ids").
 */
export function parseId(text: string): string | undefined {
  if (!uuidPattern.test(text)) return undefined;
  const hex = text.replaceAll("-", "").toLowerCase();
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** The form of app-server ids: 32 lower-case hex digits without dashes (app-server.md section 0). */
export function hexId(id: string): string {
  return id.replaceAll("-", "").toLowerCase();
}
