import type { FastifyRequest } from "fastify";
import type { App } from "./services.ts";

/** Does long work for a request during which nothing moves on its connection, which otherwise counts as a dead one. */
export async function patiently<T>(
  app: Pick<App, "initialConfig">,
  { raw }: Pick<FastifyRequest, "raw">,
  work: () => Promise<T>,
): Promise<T> {
  raw.socket.setTimeout(0);
  try {
    return await work();
  } finally {
    raw.socket.setTimeout(app.initialConfig.connectionTimeout ?? 0);
  }
}
