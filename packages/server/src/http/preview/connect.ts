import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";

/**
 * Waits for a connection into a sandbox; undefined when the client goes away meanwhile. Throws what `connect` throws, and PreviewTimeout after
 * `ms`. A connection that comes too late is closed.
 */
export async function connectInTime(
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
    const sentence = `The sandbox did not become ready within ${ms / 1000} s: try again, or look at its status.`;
    timer = setTimeout(() => reject(new PlatformError("PreviewTimeout", sentence)), ms);
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
