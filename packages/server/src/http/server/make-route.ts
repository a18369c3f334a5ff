import type { FastifyContextConfig } from "fastify";

/** Makes a function for the options of routes that share tags, configuration and constraints. */
export function makeRoute(
  tags: string[],
  shared: FastifyContextConfig = {},
  constraints?: Record<string, unknown>,
) {
  return <Schema extends object>(summary: string, schema: Schema, own: FastifyContextConfig = {}) => ({
    ...(constraints && { constraints }),
    config: { ...shared, ...own },
    schema: { tags, summary, ...schema },
  });
}

export type Route = ReturnType<typeof makeRoute>;
