import { isMasked, isObjectSchema, maskText } from "@sandpiper/wire";
import type { TObject, TSchema } from "typebox";

/**
 * Reads and merges values by the schemas of settings. Stored values are sparse: absent means
 * default.
 */

type Values = Record<string, unknown>;

/** Returns the text that replaces a secret. */
export type ShowSecret = (secret: string) => string;

/** Hides secrets, exposes them, or replaces them by a function's result. */
export type Exposure = boolean | ShowSecret;

/** Fields whose empty text means "no value". */
const clearedByEmpty: ReadonlySet<string> = new Set(["model", "base_url", "llm_model", "llm_base_url"]);

export interface MergeOptions {
  /** Fields that the caller merges itself. */
  except?: readonly string[];
  /** Maps replace stored maps instead of merging into them. */
  replaceMaps?: boolean;
}

/**
 * The stored values after a change. An absent field keeps its value. Null resets to the default,
 * unless the field is nullable with another default. For secrets, null and "" clear, and the mask
 * keeps the stored value (app-server.md section 5).
 */
export function mergeFields<Stored extends object>(
  schema: TObject,
  stored: Stored,
  change: object,
  how: MergeOptions = {},
): Stored {
  const result = new Map<string, unknown>(Object.entries(stored));
  for (const [name, property] of Object.entries(schema.properties) as [string, TSchema][]) {
    if (!Object.hasOwn(change, name) || name === "schema_version" || how.except?.includes(name)) continue;
    const value = (change as Values)[name];
    const old = (stored as Values)[name];
    const kept = isObjectSchema(property)
      ? mergeFields(property, (old ?? {}) as Values, (value ?? {}) as Values, how)
      : mergeValue(property, name, value, old, how);
    if (kept === undefined) result.delete(name);
    else result.set(name, kept);
  }
  return Object.fromEntries(result) as Stored;
}

/** The value to store for a field; undefined removes it. */
function mergeValue(
  property: TSchema,
  name: string,
  value: unknown,
  old: unknown,
  { replaceMaps = false }: MergeOptions,
): unknown {
  if (value === undefined) return old;
  if (isSecret(property)) return isMasked(value) ? old : value || undefined;
  if (value === "" && clearedByEmpty.has(name)) return undefined;
  if (value === null)
    return isNullable(property) && (getDefault(property) ?? null) !== null ? null : undefined;
  if (!isMap(getInnerSchema(property))) return value;
  const entries = isSecretMap(property)
    ? restoreMap(value as Values, old as Values | undefined)
    : (value as Values);
  return replaceMaps ? entries : { ...(old as Values | undefined), ...entries };
}

/** All fields with values or defaults. Secrets are null, or masked in maps, unless `exposed`. */
export function readFields(
  schema: TObject,
  stored: object,
  { exposed = false }: { exposed?: Exposure } = {},
): Values {
  return Object.fromEntries(
    Object.entries(schema.properties).map(([name, property]): [string, unknown] => {
      const value = Object.hasOwn(stored, name) ? (stored as Values)[name] : undefined;
      if (isObjectSchema(property)) return [name, readFields(property, (value ?? {}) as Values, { exposed })];
      if (value === undefined) return [name, getDefault(property) ?? null];
      if (exposed === true) return [name, value];
      if (isSecret(property)) return [name, exposed && value !== null ? exposed(String(value)) : null];
      if (isSecretMap(property) && value !== null) {
        const show = exposed || (() => maskText);
        return [
          name,
          Object.fromEntries(Object.entries(value as Values).map(([key, text]) => [key, show(String(text))])),
        ];
      }
      return [name, value];
    }),
  );
}

export function listSecrets(schema: TObject, stored: object): string[] {
  return Object.entries(schema.properties).flatMap(([name, property]): string[] => {
    const value = Object.hasOwn(stored, name) ? (stored as Values)[name] : undefined;
    if (value === undefined || value === null) return [];
    if (isObjectSchema(property)) return listSecrets(property, value as Values);
    return isSecret(property) ? [String(value)] : [];
  });
}

/** The non-null option of a nullable schema. */
export function getInnerSchema(
  schema: TSchema,
): TSchema & { type?: string; format?: string; enum?: unknown[]; default?: unknown } {
  const { anyOf } = schema as { anyOf?: TSchema[] };
  return anyOf?.find((option) => (option as { type?: string }).type !== "null") ?? schema;
}

export function getDefault(schema: TSchema): unknown {
  if (isObjectSchema(schema)) return readFields(schema, {});
  return (schema as { default?: unknown }).default ?? (isMap(schema) ? {} : undefined);
}

export function isSecret(schema: TSchema): boolean {
  return getInnerSchema(schema).format === "password";
}

function isNullable(schema: TSchema): boolean {
  return "anyOf" in schema;
}

function isMap(schema: TSchema): boolean {
  return "patternProperties" in schema;
}

/** Whether a field is a map whose values are secrets. */
export function isSecretMap(schema: TSchema): boolean {
  const { patternProperties = {} } = getInnerSchema(schema) as {
    patternProperties?: Record<string, TSchema>;
  };
  return Object.values(patternProperties).some(
    (value) => (value as { format?: string }).format === "password",
  );
}

function restoreMap(value: Values, old: Values | undefined): Values {
  const entries = Object.entries(value).flatMap(([key, text]): [string, unknown][] => {
    if (!isMasked(text)) return [[key, text]];
    return old && Object.hasOwn(old, key) ? [[key, old[key]]] : [];
  });
  return Object.fromEntries(entries);
}
