import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { RouteOptions } from "fastify";
import type { App } from "../server/services.ts";
import { buildDocument } from "./document.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /**
     * Statuses that this route can return in addition to those of its kind, for the OpenAPI
     * document.
     */
    failures?: readonly number[];
  }
}

/** Replaces the package's policy, whose `upgrade-insecure-requests` breaks the page over http. */
const contentPolicy =
  "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'self'; frame-ancestors 'self'";

/** The two documents, as the bytes that are sent. */
export interface Documents {
  platform: () => Promise<Buffer>;
  agentServer: () => Promise<Buffer>;
}

/**
 * Builds the OpenAPI documents from the routes' schemas and serves the platform's under `/docs`
 * without external resources.
 */
export function installOpenApi(app: App): Documents {
  const routes: RouteOptions[] = [];
  const agentRoutes: RouteOptions[] = [];
  const platform = makeOnce(() => buildDocument(routes));
  app.addHook("onRoute", (route) => {
    // The package writes the document again for each request, as YAML for almost a second; JSON is
    // YAML too.
    const type = { "/docs/json": "application/json", "/docs/yaml": "application/x-yaml" }[route.url];
    if (type && !isAgentView(route))
      route.handler = async (_request, reply) => reply.type(type).send(await platform());
    if (route.url.startsWith("/docs")) route.config = { ...route.config, access: "public", cacheable: true };
    else if (!route.schema || (route.schema as { hide?: boolean }).hide) return;
    else if (isAgentView(route)) agentRoutes.push(route);
    else routes.push(route);
  });
  // The page under `/docs` needs the plugin, and not its document.
  app.register(swagger, { openapi: {}, transform: ({ url }) => ({ schema: { hide: true }, url }) });
  app.register(swaggerUi, { routePrefix: "/docs", staticCSP: contentPolicy });
  const key = ({ method, url }: RouteOptions) => `${method} ${url}`;
  return {
    platform,
    agentServer: makeOnce(() => {
      const own = new Set(agentRoutes.map(key));
      const open = routes.filter(
        (route) => ["agent", "public"].includes(route.config?.access ?? "user") && !own.has(key(route)),
      );
      return buildDocument([...agentRoutes, ...open], "agent-server");
    }),
  };
}

/** Serialises a document at the first request. */
function makeOnce(make: () => Promise<unknown>): () => Promise<Buffer> {
  let bytes: Promise<Buffer> | undefined;
  return () => (bytes ??= make().then((document) => Buffer.from(JSON.stringify(document))));
}

function isAgentView({ constraints }: RouteOptions): boolean {
  return (constraints as { view?: string } | undefined)?.view === "agent";
}

/**
 * `GET /openapi.json` of the platform; with a session key or under `/agent/<sandbox id>`, that of
 * the agent-server surface, which `/docs` shows there too.
 */
export function documentRoutes(app: App, { platform, agentServer }: Documents): void {
  const agent = { view: "agent" };
  const documents = [
    { paths: ["/openapi.json"], constraints: {}, bytes: platform },
    { paths: ["/openapi.json", "/docs/json"], constraints: agent, bytes: agentServer },
  ];
  for (const { paths, constraints, bytes } of documents) {
    for (const path of paths)
      app.get(
        path,
        { constraints, config: { access: "public" }, schema: { hide: true } },
        async (_request, reply) => reply.type("application/json").send(await bytes()),
      );
  }
}
