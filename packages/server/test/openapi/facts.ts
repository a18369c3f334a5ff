/**
 * What two OpenAPI documents are compared by: the parameters of each operation, and the fields of
 * its body and response, which of them are required, and enumerations. No prose, order or types.
 */
export interface OperationFacts {
  /** `query limit`, `path name` … -> its known properties. */
  parameters: Record<string, FieldFacts>;
  /** Dotted fields of the JSON body (`items[].id`); `*` stands for an undescribed body. */
  body: Record<string, FieldFacts>;
  /** The same of the JSON answer of success. */
  answer: Record<string, FieldFacts>;
}

export interface FieldFacts {
  required?: true;
  enum?: string[];
}

export type Facts = Record<string, OperationFacts>;

interface Schema {
  $ref?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
}

interface Operation {
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema }[];
  requestBody?: { content?: Record<string, { schema?: Schema }> };
  responses?: Record<string, { content?: Record<string, { schema?: Schema }> }>;
}

export interface Document {
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, Schema> };
}

/** How far fields are followed: `items[].metrics.model_name` has three steps. */
const maxDepth = 3;

/** The facts of a document, by `METHOD /path`, without trailing slashes. */
export function extractFacts(document: Document): Facts {
  const schemas = document.components?.schemas ?? {};
  const facts: Facts = {};
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      facts[`${method.toUpperCase()} ${path.replace(/(.)\/$/, "$1")}`] = factsOfOperation(operation, schemas);
    }
  }
  return facts;
}

function factsOfOperation(
  { parameters = [], requestBody, responses = {} }: Operation,
  schemas: Record<string, Schema>,
): OperationFacts {
  const success = Object.keys(responses).find((status) => status.startsWith("2"));
  const fields = (schema: Schema | undefined) => (schema ? fieldsOf(schema, schemas) : {});
  return {
    parameters: Object.fromEntries(
      parameters.map(({ name, in: kind, required, schema = {} }) => [
        `${kind} ${name}`,
        { ...(required && kind !== "path" && { required: true }), ...enumOf(schema, schemas) },
      ]),
    ) as Record<string, FieldFacts>,
    body: fields(requestBody?.content?.["application/json"]?.schema),
    answer: fields(
      success === undefined ? undefined : responses[success]!.content?.["application/json"]?.schema,
    ),
  };
}

function fieldsOf(schema: Schema, schemas: Record<string, Schema>): Record<string, FieldFacts> {
  const fields: Record<string, FieldFacts> = {};
  const visit = (one: Schema, prefix: string, depth: number) => {
    const real = resolve(one, schemas);
    if (real.items) visit(real.items, `${prefix}[]`, depth);
    if (depth >= maxDepth) return;
    for (const [name, field] of Object.entries(real.properties ?? {})) {
      const key = prefix === "" ? name : `${prefix}.${name}`;
      fields[key] = { ...(real.required?.includes(name) && { required: true }), ...enumOf(field, schemas) };
      visit(field, key, depth + 1);
    }
  };
  // An answer that is one of two things, such as a list by ids or a page, has the fields of both.
  const root = resolve(schema, schemas);
  for (const branch of root.anyOf ?? [root]) visit(branch, "", 0);
  // The field exists and may have any value.
  return Object.keys(fields).length > 0 ? fields : { "*": {} };
}

/** The enum of a field, also if it is nullable or a list. */
function enumOf(schema: Schema, schemas: Record<string, Schema>): { enum?: string[] } {
  const real = resolve(schema, schemas);
  const values =
    (real.const === undefined ? undefined : [real.const]) ??
    real.enum ??
    (real.items && resolve(real.items, schemas).enum) ??
    constsOf(real);
  const texts = values?.filter((value) => value !== null).map(String) ?? [];
  return texts.length > 0 ? { enum: texts.sort() } : {};
}

function constsOf({ anyOf }: Schema): unknown[] | undefined {
  return anyOf?.every((one) => one.const !== undefined) ? anyOf.map((one) => one.const) : undefined;
}

/** Follows references and takes the non-null branch; real unions have no fields here. */
function resolve(schema: Schema, schemas: Record<string, Schema>, hops = 0): Schema {
  if (hops > 8) return {};
  const name = schema.$ref?.split("/").at(-1);
  if (name !== undefined) return resolve(schemas[name] ?? {}, schemas, hops + 1);
  if (schema.allOf?.length === 1) return resolve(schema.allOf[0]!, schemas, hops + 1);
  const branches = (schema.anyOf ?? schema.oneOf ?? []).filter(
    (one) => (one as { type?: string }).type !== "null",
  );
  return branches.length === 1 ? resolve(branches[0]!, schemas, hops + 1) : schema;
}
