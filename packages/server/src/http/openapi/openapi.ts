import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { RouteOptions } from "fastify";
import type { App } from "../server/services.ts";
import { buildDocument } from "./document.ts";
import type { OpenApiDocument } from "./schema.ts";

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

/**
 * Builds the OpenAPI documents from the routes' schemas and serves the platform's under `/docs`
 * without external resources. Returns the document of the agent-server surface.
 */
export function installOpenApi(app: App): { agentServer: () => OpenApiDocument } {
  const routes: RouteOptions[] = [];
  const agentRoutes: RouteOptions[] = [];
  app.addHook("onRoute", (route) => {
    if (route.url.startsWith("/docs")) route.config = { ...route.config, access: "public", cacheable: true };
    else if (!route.schema || (route.schema as { hide?: boolean }).hide) return;
    else if (isAgentView(route)) agentRoutes.push(route);
    else routes.push(route);
  });
  app.register(swagger, {
    openapi: {},
    transform: ({ url }) => ({ schema: { hide: true }, url }),
    // The plugin's document types cover more than ours.
    transformObject: () => buildDocument(routes) as never,
  });
  app.register(swaggerUi, { routePrefix: "/docs", staticCSP: contentPolicy });
  const key = ({ method, url }: RouteOptions) => `${method} ${url}`;
  return {
    agentServer() {
      const own = new Set(agentRoutes.map(key));
      const open = routes.filter(
        (route) => ["agent", "public"].includes(route.config?.access ?? "user") && !own.has(key(route)),
      );
      return buildDocument([...agentRoutes, ...open], "agent-server");
    },
  };
}

function isAgentView({ constraints }: RouteOptions): boolean {
  return (constraints as { view?: string } | undefined)?.view === "agent";
}

/**
 * `GET /openapi.json` of the platform; with a session key or under `/agent/<sandbox id>`, that of
 * the agent-server surface, which `/docs` shows there too.
 */
export function documentRoutes(app: App, agentServer: () => OpenApiDocument): void {
  const agent = { view: "agent" };
  const documents = [
    { paths: ["/openapi.json"], constraints: {}, make: () => app.swagger() as unknown },
    { paths: ["/openapi.json", "/docs/json"], constraints: agent, make: agentServer },
  ];
  for (const { paths, constraints, make } of documents) {
    let text: string | undefined;
    for (const path of paths)
      app.get(
        path,
        { constraints, config: { access: "public" }, schema: { hide: true } },
        (_request, reply) => {
          text ??= JSON.stringify(make());
          return reply.type("application/json").send(text);
        },
      );
  }
}
