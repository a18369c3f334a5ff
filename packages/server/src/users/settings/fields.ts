import { isObject, maskText } from "@sandpiper/wire";
import type { TObject, TSchema } from "typebox";

/**
 * What the schemas of settings say about their values: which are secrets, what a change does to what is stored, what a reader sees. Stored
 * values are sparse: a field that is absent has its default.
 */

type Values = Record<string, unknown>;

/** Makes of a secret what a reader gets in its place. */
export type ShowSecret = (secret: string) => string;

/** Whether a reader gets secrets: not, as they are, or as a function shows them. */
export type Exposure = boolean | ShowSecret;

/** Fields whose empty text means "no value". */
const clearedByEmpty: ReadonlySet<string> = new Set(["model", "base_url", "llm_model", "llm_base_url"]);

/** How a change is merged. */
export interface MergeOptions {
  /** Fields that the caller merges itself. */
  except?: readonly string[];
  /** Whether a map takes the place of the stored one; by default its entries are added to it. */
  replaceMaps?: boolean;
}

/**
 * The stored values after a change. An absent field keeps its value. Null resets to the default, unless null is a value and the default is
 * another one. Of secrets, null and "" clear (app-server.md section 5) and the mask keeps.
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
    const kept = isObject(property)
      ? mergeFields(property, (old ?? {}) as Values, (value ?? {}) as Values, how)
      : mergeValue(property, name, value, old, how);
    if (kept === undefined) result.delete(name);
    else result.set(name, kept);
  }
  return Object.fromEntries(result) as Stored;
}

/** What to store of a field's new value; undefined: nothing. */
function mergeValue(
  property: TSchema,
  name: string,
  value: unknown,
  old: unknown,
  { replaceMaps = false }: MergeOptions,
): unknown {
  if (value === undefined) return old;
  if (isSecret(property)) return value === maskText ? old : value || undefined;
  if (value === "" && clearedByEmpty.has(name)) return undefined;
  if (value === null)
    return isNullable(property) && (getDefault(property) ?? null) !== null ? null : undefined;
  if (!isMap(getInnerSchema(property))) return value;
  const entries = isSecretMap(property)
    ? restoreMap(value as Values, old as Values | undefined)
    : (value as Values);
  return replaceMaps ? entries : { ...(old as Values | undefined), ...entries };
}

/** All fields of the schema with their values or defaults. Secrets are null, values of secret maps masked, unless they are `exposed`. */
export function readFields(
  schema: TObject,
  stored: object,
  { exposed = false }: { exposed?: Exposure } = {},
): Values {
  return Object.fromEntries(
    Object.entries(schema.properties).map(([name, property]): [string, unknown] => {
      const value = Object.hasOwn(stored, name) ? (stored as Values)[name] : undefined;
      if (isObject(property)) return [name, readFields(property, (value ?? {}) as Values, { exposed })];
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

/** The values of secret fields among stored values. */
export function listSecrets(schema: TObject, stored: object): string[] {
  return Object.entries(schema.properties).flatMap(([name, property]): string[] => {
    const value = Object.hasOwn(stored, name) ? (stored as Values)[name] : undefined;
    if (value === undefined || value === null) return [];
    if (isObject(property)) return listSecrets(property, value as Values);
    return isSecret(property) ? [String(value)] : [];
  });
}

/** The schema of a value that is not null. */
export function getInnerSchema(
  schema: TSchema,
): TSchema & { type?: string; format?: string; enum?: unknown[]; default?: unknown } {
  const { anyOf } = schema as { anyOf?: TSchema[] };
  return anyOf?.find((option) => (option as { type?: string }).type !== "null") ?? schema;
}

/** The default that a schema names. */
export function getDefault(schema: TSchema): unknown {
  if (isObject(schema)) return readFields(schema, {});
  return (schema as { default?: unknown }).default ?? (isMap(schema) ? {} : undefined);
}

/** Whether a field's value is a secret: its schema says so by its format. */
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
    if (text !== maskText) return [[key, text]];
    return old && Object.hasOwn(old, key) ? [[key, old[key]]] : [];
  });
  return Object.fromEntries(entries);
}
