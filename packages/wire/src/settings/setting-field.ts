import { type TObject, type TSchema, Type } from "typebox";
import { Nullable } from "../common/schema.ts";

/**
 * How a form shows a setting (app-server.md section 5, SettingsSchema). The field's schema has it
 * as `x-setting`.
 */
export interface SettingHint {
  /** Default: made of the field's name. */
  label?: string;
  /** Default `minor`. */
  prominence?: "critical" | "major" | "minor";
  /** Names of fields of the same section that have to be on. */
  depends_on?: string[];
  /** Default: the section that the field's object is, else `general`. */
  section?: string;
}

/** Options of a schema that carry a hint. */
export function shown(hint: SettingHint = {}) {
  return { "x-setting": hint };
}

/** Longest text of a setting, characters. */
export const maxSettingText = 65_536;

/** A text or null, the default. */
export function optionalText(hint?: SettingHint) {
  return Type.Union([Type.String({ maxLength: maxSettingText }), Type.Null()], hint && shown(hint));
}

/** A secret: readable as null only. Its `format` makes it one for everything that masks. */
export function secretText(hint?: SettingHint) {
  return Type.Union(
    [Type.String({ format: "password", maxLength: 16_384 }), Type.Null()],
    hint && shown(hint),
  );
}

/** A nullable field with a default that is not null, or with a hint. */
export function nullable<T extends TSchema>(
  schema: T,
  options: { default?: unknown } & ReturnType<typeof shown>,
) {
  return Type.Union([schema, Type.Null()], options);
}

/** What a merge may change of `T`: any part of it; null resets. */
export type Diff<T> = T extends readonly unknown[] | string | number | boolean | null
  ? T
  : { [Key in keyof T]?: Diff<T[Key]> | null };

/**
 * The schema of a patch of an object: every field is optional and, except nested objects, may be
 * null.
 */
export function diffOf<T extends TObject>(schema: T, options: Record<string, unknown> = {}) {
  const properties = Object.entries(schema.properties).map(([name, property]): [string, TSchema] => {
    const { default: _, ...bare } = property as TSchema & { default?: unknown };
    if (isObjectSchema(property)) return [name, Type.Optional(diffOf(property))];
    return [name, Type.Optional("anyOf" in bare ? (bare as TSchema) : Nullable(bare as TSchema))];
  });
  return Type.Object(Object.fromEntries(properties), options) as TObject;
}

/** Whether a schema is an object with named fields. */
export function isObjectSchema(schema: TSchema): schema is TObject {
  return "properties" in schema;
}
