import { PlatformError } from "@sandpiper/core/errors";
import type { FastifyInstance } from "fastify";
import { connectionBacklog } from "./accept-more.ts";

/** Makes the server listen. Throws ConfigInvalid when the address cannot be used. */
export async function listen(
  app: Pick<FastifyInstance, "listen">,
  { host, port }: { host: string; port: number },
): Promise<void> {
  try {
    await app.listen({ host, port, backlog: connectionBacklog });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE") throw new PlatformError("ListenPortInUse", { host, port }, { cause: error });
    throw new PlatformError("ListenFailed", { host, port, reason: message }, { cause: error });
  }
}
