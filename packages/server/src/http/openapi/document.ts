import { yieldingIterate } from "@sandpiper/core/scheduling/yielding";
import type { RouteOptions } from "fastify";
import { Components } from "./components.ts";
import { buildExample } from "./examples.ts";
import { FailureResponses, getFailureStatuses } from "./failures.ts";
import { addLinks } from "./links.ts";
import { getParameterDescription } from "./parameter-descriptions.ts";
import { describeRequestTexts } from "./request-texts.ts";
import type { JsonSchema, Media, OpenApiDocument, Operation, Parameter, Response } from "./schema.ts";

interface RouteSchema {
  operationId?: string;
  summary?: string;
  description?: string;
  tags?: string[];
  params?: JsonSchema;
  querystring?: JsonSchema;
  headers?: JsonSchema;
  body?: JsonSchema;
  response?: Record<string, JsonSchema & { content?: Record<string, Media> }>;
  consumes?: string[];
  produces?: string[];
  /** Failures that browsers get as a page. */
  failuresAsPage?: number[];
}

const securitySchemes = {
  key: { type: "apiKey", in: "header", name: "X-Session-API-Key", description: "A user's API key" },
  bearer: { type: "http", scheme: "bearer", description: "A user's API key" },
  login: {
    type: "apiKey",
    in: "cookie",
    name: "sandpiper_login",
    description:
      "A login of a browser (`POST /login`), for the server's own pages; over https the name begins with `__Host-`",
  },
  sandbox: {
    type: "apiKey",
    in: "header",
    name: "X-Session-API-Key",
    description: "The session key of a sandbox: opens what belongs to this sandbox",
  },
};
const userSecurity: Record<string, string[]>[] = [{ key: [] }, { bearer: [] }, { login: [] }];

const surfaces = {
  platform: {
    title: "Sandpiper",
    description: "Software-agent conversations inside isolated sandboxes",
    servers: undefined,
    security: userSecurity,
  },
  "agent-server": {
    title: "Sandpiper agent server",
    description:
      "What the session key of a sandbox opens: its conversations, files, commands and git repositories",
    servers: [{ url: "/agent/{sandbox_id}", variables: { sandbox_id: { default: "sbx-" } } }, { url: "/" }],
    security: [...userSecurity, { sandbox: [] }],
  },
};

/**
 * Builds the OpenAPI document of routes: schemas with named components, possible failures, and
 * examples. Other work runs meanwhile: anybody may ask for the first document.
 */
export async function buildDocument(
  routes: readonly RouteOptions[],
  surface: keyof typeof surfaces = "platform",
): Promise<OpenApiDocument> {
  const components = new Components();
  const failures = new FailureResponses(components);
  const paths: OpenApiDocument["paths"] = {};
  const gets = new Map(routes.filter(({ method }) => method === "GET").map((route) => [route.url, route]));
  for await (const route of yieldingIterate(routes)) {
    // Fastify adds HEAD to every GET; only a separate HEAD route is listed.
    if (route.method === "HEAD" && gets.get(route.url)?.schema === route.schema) continue;
    const path = route.url.replaceAll(/:(\w+)/g, "{$1}").replace(/\*$/, "{path}");
    paths[path] = {
      ...paths[path],
      [String(route.method).toLowerCase()]: buildOperation(route, path, components, failures, surface),
    };
  }
  const { title, description, servers, security } = surfaces[surface];
  const document: OpenApiDocument = {
    openapi: "3.1.0",
    info: { title, version: "0.1.0", description },
    ...(servers && { servers }),
    security,
    paths,
    components: { securitySchemes, schemas: components.getSorted(), responses: failures.responses },
  };
  describeRequestTexts(document);
  addLinks(document);
  return document;
}

function buildOperation(
  route: RouteOptions,
  path: string,
  components: Components,
  failures: FailureResponses,
  surface: keyof typeof surfaces,
): Operation {
  const schema = route.schema as RouteSchema;
  const { summary, description, tags, body } = schema;
  const family = route.config?.errors ?? "detail";
  const responses: Record<string, Response> = {};
  for (const [status, answer] of Object.entries(schema.response ?? { 200: {} })) {
    responses[status] = buildResponse(answer, schema.produces, components);
  }
  for (const status of getFailureStatuses(route, surface === "agent-server"))
    responses[status] ??= failures.toReference(status, family);
  if (schema.failuresAsPage) {
    for (const status of schema.failuresAsPage)
      responses[status] = withPage(failures.toResponse(status, family));
  }
  const parameters = buildParameters(path, schema, components);
  return {
    operationId: schema.operationId ?? makeOperationId(String(route.method), path),
    ...(summary !== undefined && { summary }),
    ...(description !== undefined && { description }),
    ...(tags && { tags }),
    ...getSecurity(route),
    ...(parameters.length > 0 && { parameters }),
    ...((body || schema.consumes) && { requestBody: buildRequestBody(body, schema.consumes, components) }),
    responses,
  };
}

/** For example `get_app_conversations_search`; unique, because each path has a method once. */
function makeOperationId(method: string, path: string): string {
  const words = path.replace(/^\/api\/v1\//, "v1/").replaceAll(/\W+/g, "_");
  return `${method.toLowerCase()}_${words.replaceAll(/^_|_$/g, "")}`;
}

function getSecurity({ config }: RouteOptions): { security?: Operation["security"] } {
  if (config?.access === "public") return { security: [] };
  return config?.access === "agent" ? { security: [...userSecurity, { sandbox: [] }] } : {};
}

function buildParameters(path: string, schema: RouteSchema, components: Components): Parameter[] {
  const ofKind = (kind: Parameter["in"], { properties = {}, required = [] }: JsonSchema = {}) =>
    Object.entries(properties).map(([name, property]): Parameter => {
      const description = property.description ?? getParameterDescription(name, kind);
      return {
        name,
        in: kind,
        // Optional if it has a default, although its type says that the handler always gets it.
        required: kind === "path" || (required.includes(name) && property.default === undefined),
        ...(description !== undefined && { description }),
        schema: components.toReference({ ...property, description: undefined }),
      };
    });
  const inPath = ofKind("path", schema.params);
  for (const [, name] of path.matchAll(/\{(\w+)\}/g)) {
    if (inPath.some((one) => one.name === name)) continue;
    inPath.push(...ofKind("path", { properties: { [name!]: { type: "string" } } }));
  }
  return [...inPath, ...ofKind("query", schema.querystring), ...ofKind("header", schema.headers)];
}

function buildRequestBody(
  body: JsonSchema | undefined,
  consumes = ["application/json"],
  components: Components,
): Operation["requestBody"] {
  // A body without a schema is a byte stream, which may be empty.
  if (!body)
    return { required: false, content: Object.fromEntries(consumes.map((type) => [type, { schema: {} }])) };
  const { default: whenAbsent, examples, ...schema } = body;
  const media = {
    schema: components.toReference(schema),
    example: examples?.[0] ?? buildExample(schema, "request"),
  };
  return {
    required: whenAbsent === undefined,
    content: Object.fromEntries(consumes.map((type) => [type, media])),
  };
}

function buildResponse(
  answer: JsonSchema & { content?: Record<string, Media> },
  produces: string[] | undefined,
  components: Components,
): Response {
  const { description = "The answer", content, ...schema } = answer;
  if (content) {
    const media = Object.entries(content).map(([type, one]) => [
      type,
      { ...one, schema: components.toReference(one.schema) },
    ]);
    return { description, content: Object.fromEntries(media) };
  }
  if (schema.type === "null") return { description };
  if (Object.keys(schema).length === 0) return { description, content: makeByteContent(produces) };
  const media = { schema: components.toReference(schema), example: buildExample(schema, "answer") };
  return {
    description,
    content: Object.fromEntries((produces ?? ["application/json"]).map((type) => [type, media])),
  };
}

function withPage(response: Response): Response {
  return { ...response, content: { ...response.content, "text/html": { schema: { type: "string" } } } };
}

/** A response without a schema is a byte stream. */
function makeByteContent(types = ["application/octet-stream"]): Record<string, Media> {
  return Object.fromEntries(types.map((type) => [type, { schema: {} }]));
}
