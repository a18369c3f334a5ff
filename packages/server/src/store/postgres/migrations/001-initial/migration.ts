import { functions } from "./functions.ts";
import { tables } from "./tables.ts";
import { triggers } from "./triggers.ts";

/** The first schema. */
export const initial = tables + triggers + functions;
