import { randomUUID } from "node:crypto";

/** A text that is never the same twice. */
export const incomparable = (why: string) => `${randomUUID()}: ${why} to compare`;
