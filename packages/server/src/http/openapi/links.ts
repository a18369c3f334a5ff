import type { JsonSchema, OpenApiDocument, Operation } from "./schema.ts";

const createdId = "$response.body#/id";

/** What is created under another path than it is read. */
const elsewhere: Readonly<Record<string, { path: string; parameter: string }>> = {
  "/api/v1/app-conversations": { path: "/api/v1/app-conversations/start-tasks", parameter: "ids" },
};

/**
 * Adds links from responses that return a created object to the operations that take its id, so
 * that tools can follow it: those below the path of its creation, and the batch at that path.
 */
export function addLinks({ paths, components }: OpenApiDocument): void {
  for (const [path, { post }] of Object.entries(paths)) {
    const created = post && (post.responses["201"] ?? post.responses["200"]);
    const schema = created?.content?.["application/json"]?.schema;
    if (!schema || !hasId(schema, components.schemas)) continue;
    const links = [...findFollowers(path, paths)].map(([{ operationId }, parameter]) => [
      operationId,
      { operationId, parameters: { [parameter]: createdId } },
    ]);
    if (links.length > 0) created.links = Object.fromEntries(links);
  }
}

function* findFollowers(
  path: string,
  paths: OpenApiDocument["paths"],
): Generator<[operation: Operation, parameter: string]> {
  for (const [other, operations] of Object.entries(paths)) {
    const below = other.startsWith(`${path}/`) ? other.slice(path.length + 1) : "";
    const parameter = /^\{(\w+)\}(?:\/[\w-]+)?$/.exec(below)?.[1];
    if (parameter !== undefined) {
      for (const operation of Object.values(operations)) yield [operation, parameter];
    }
  }
  const batch = elsewhere[path] ?? { path, parameter: undefined };
  const get = paths[batch.path]?.get;
  const name = get?.parameters?.find((one) => one.in === "query" && /^ids?$/.test(one.name))?.name;
  if (get && name !== undefined) yield [get, name];
}

function hasId({ $ref, properties }: JsonSchema, schemas: Record<string, JsonSchema>): boolean {
  const name = $ref?.split("/").at(-1);
  return name === undefined ? properties?.id !== undefined : hasId(schemas[name]!, schemas);
}
