import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { RouteOptions } from "fastify";
import { buildDocument } from "./openapi-document.ts";
import type { App } from "./services.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Statuses of failures that only this route gives, for the OpenAPI document; what every route of its kind gives stands there by itself. */
    failures?: readonly number[];
  }
}

/** Makes the OpenAPI document out of the schemas of the routes, and serves it as a page under `/docs` without outside resources. */
export function installOpenApi(app: App): void {
  const routes: RouteOptions[] = [];
  app.addHook("onRoute", (route) => {
    if (route.url.startsWith("/docs")) route.config = { ...route.config, access: "public" };
    else if (route.schema && !(route.schema as { hide?: boolean }).hide) routes.push(route);
  });
  app.register(swagger, {
    openapi: {},
    transform: ({ url }) => ({ schema: { hide: true }, url }),
    transformObject: () => buildDocument(routes) as never,
  });
  app.register(swaggerUi, { routePrefix: "/docs", staticCSP: true });
}

/** `GET /openapi.json`. */
export function documentRoutes(app: App): void {
  let text: string | undefined;
  app.get("/openapi.json", { config: { access: "public" }, schema: { hide: true } }, (_request, reply) => {
    text ??= JSON.stringify(app.swagger());
    return reply.type("application/json").send(text);
  });
}
