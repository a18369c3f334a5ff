import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";

/**
 * Waits for a connection into a sandbox; undefined if the client leaves first. A connection that
 * arrives too late is closed. Throws what `connect` throws, and PreviewTimeout after `ms`.
 */
export async function connectWithTimeout(
  connect: () => Promise<Duplex>,
  ms: number,
  response: ServerResponse,
): Promise<Duplex | undefined> {
  let givenUp = false;
  const connecting = connect().then((connection) => {
    connection.on("error", () => {});
    if (givenUp) connection.destroy();
    return connection;
  });
  connecting.catch(() => {});
  let timer: NodeJS.Timeout | undefined;
  let gone = () => {};
  const ending = new Promise<undefined>((resolve, reject) => {
    gone = () => resolve(undefined);
    response.once("close", gone);
    timer = setTimeout(() => reject(new PlatformError("PreviewConnectTimeout", { seconds: ms / 1000 })), ms);
  });
  try {
    const connection = await Promise.race([connecting, ending]);
    givenUp = connection === undefined;
    return connection;
  } catch (error) {
    givenUp = true;
    throw error;
  } finally {
    clearTimeout(timer);
    response.off("close", gone);
  }
}
