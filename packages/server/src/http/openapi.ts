import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { App } from "./services.ts";

/** Makes the OpenAPI document out of the schemas of the routes, and serves it as a page under `/docs` without outside resources. */
export function installOpenApi(app: App): void {
  app.addHook("onRoute", (route) => {
    if (route.url.startsWith("/docs")) route.config = { ...route.config, access: "public" };
  });
  app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title: "Sandpiper", version: "0.1.0", description: "Software-agent conversations inside isolated sandboxes" },
      components: {
        securitySchemes: {
          key: { type: "apiKey", in: "header", name: "X-Session-API-Key" },
          bearer: { type: "http", scheme: "bearer" },
        },
      },
      security: [{ key: [] }, { bearer: [] }],
    },
  });
  app.register(swaggerUi, { routePrefix: "/docs", staticCSP: true });
}

/** `GET /openapi.json`. */
export function documentRoutes(app: App): void {
  let text: string | undefined;
  app.get("/openapi.json", { config: { access: "public" }, schema: { hide: true } }, (_request, reply) => {
    text ??= JSON.stringify(app.swagger(), withoutNeed);
    return reply.type("application/json").send(text);
  });
}

/** A parameter with a default is not required, though its schema says that the handler always has it. */
function withoutNeed(_key: string, value: unknown): unknown {
  const parameter = value as { in?: string; required?: boolean; schema?: { default?: unknown } } | null;
  return parameter?.in === "query" && parameter.schema?.default !== undefined ? { ...parameter, required: false } : value;
}
