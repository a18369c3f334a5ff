import type { FastifyRequest } from "fastify";
import type { App } from "./services.ts";

/** Runs long work without traffic on the connection, which would otherwise time out. */
export async function withoutSocketTimeout<T>(
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
