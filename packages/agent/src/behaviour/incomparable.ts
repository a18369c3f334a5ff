import { randomUUID } from "node:crypto";

/** A text that is different at each call, so that an acceptance never covers it. */
export const incomparable = (why: string) => `${randomUUID()}: ${why} to compare`;
