import type { JsonSchema, OpenApiDocument } from "./schema.ts";

/** NUL is refused in every request: files, arguments and PostgreSQL cannot hold it. */
const textPattern = "^[^\\u0000]*$";

/**
 * Documents for texts of requests what the server's parsers refuse. Schemas that responses use too
 * stay as they are: outputs of tools may hold NUL.
 */
export function describeRequestTexts({ paths, components }: OpenApiDocument): void {
  const { schemas } = components;
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const inResponses = new Set<string>();
  for (const { responses } of operations)
    for (const { content = {} } of Object.values(responses))
      for (const { schema } of Object.values(content)) collect(schema, schemas, inResponses);
  const done = new Set<string>();
  const describe = (schema: JsonSchema) => describeTexts(schema, schemas, inResponses, done);
  for (const { parameters = [], requestBody } of operations) {
    for (const { schema } of parameters) describe(schema);
    const media = requestBody?.content["application/json"];
    if (media) describe(media.schema);
  }
}

/** Adds the names of all components that a schema uses. */
function collect(value: unknown, schemas: Record<string, JsonSchema>, names: Set<string>): void {
  if (typeof value !== "object" || value === null) return;
  const name = (value as JsonSchema).$ref?.split("/").at(-1);
  if (name !== undefined && !names.has(name)) {
    names.add(name);
    collect(schemas[name], schemas, names);
  }
  for (const child of Object.values(value)) collect(child, schemas, names);
}

function describeTexts(
  schema: JsonSchema,
  schemas: Record<string, JsonSchema>,
  skipped: ReadonlySet<string>,
  done: Set<string>,
): void {
  const name = schema.$ref?.split("/").at(-1);
  if (name !== undefined) {
    if (skipped.has(name) || done.has(name)) return;
    done.add(name);
    describeTexts(schemas[name]!, schemas, skipped, done);
  }
  const isPlain = schema.type === "string" && !schema.enum && schema.const === undefined;
  if (isPlain && schema.pattern === undefined && (schema.format ?? "password") === "password")
    schema.pattern = textPattern;
  const { properties = {}, patternProperties = {}, anyOf = [], items, additionalProperties } = schema;
  const children = [
    ...Object.values(properties),
    ...Object.values(patternProperties),
    ...anyOf,
    items,
    additionalProperties,
  ];
  for (const child of children) if (typeof child === "object") describeTexts(child, schemas, skipped, done);
}
