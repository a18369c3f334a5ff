import type { TSchema } from "typebox";
import { Settings } from "typebox/system";
import { Clean, UnionPrioritySort } from "typebox/value";

/** Schemas whose unions are sorted: narrower alternatives first. */
const sorted = new WeakMap<TSchema, TSchema>();

/**
 * Removes fields that a schema does not name, in place, like TypeBox's `Clean`, which would sort
 * the schema anew in each call.
 */
export function stripUnknownFields(schema: TSchema, value: unknown): unknown {
  const known = sorted.get(schema) ?? UnionPrioritySort(schema);
  sorted.set(schema, known);
  const { unionPrioritySort } = Settings.Get();
  Settings.Set({ unionPrioritySort: false });
  try {
    return Clean(known, value);
  } finally {
    Settings.Set({ unionPrioritySort });
  }
}
