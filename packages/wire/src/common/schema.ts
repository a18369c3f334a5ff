import { type Static, type TSchema, Type } from "typebox";

/** A schema that also allows null. */
export function Nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}

/** A closed set of strings, as JSON Schema `enum` (OpenAPI shows it as one list). */
export function StringEnum<const T extends readonly string[]>(
  values: T,
  options: Record<string, unknown> = {},
) {
  return Type.Unsafe<T[number]>({ type: "string", enum: [...values], ...options });
}

/** A page of a list (app-server.md section 0, row "list pages"). */
export function Page<T extends TSchema>(item: T) {
  return Type.Object({ items: Type.Array(item), next_page_id: Nullable(Type.String()) });
}

/** Answer of verbs without a payload. */
export const Success = Type.Object({ success: Type.Boolean() });

export type PageOf<T> = { items: T[]; next_page_id: string | null };
export type { Static };
