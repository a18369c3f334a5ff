import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { type Duplex, pipeline } from "node:stream";

/**
 * Tells the client that the protocol has changed, and joins the two connections until one ends. `heads` is what has come on each of them behind
 * the request and the answer.
 */
export function splice(
  client: Duplex,
  app: Duplex,
  answer: IncomingMessage,
  headers: OutgoingHttpHeaders,
  heads: { client: Buffer; app: Buffer },
): void {
  const lines = Object.entries({ ...headers, connection: "Upgrade", upgrade: answer.headers.upgrade }).flatMap(([name, value]) =>
    [value ?? []].flat().map((one) => `${name}: ${one}\r\n`),
  );
  client.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join("")}\r\n`, "latin1");
  if (heads.app.length > 0) client.write(heads.app);
  if (heads.client.length > 0) app.write(heads.client);
  // Each direction ends by itself, so that the last words of one side still arrive.
  const end = (error: unknown) => {
    if (!error) return;
    client.destroy();
    app.destroy();
  };
  pipeline(client, app, end);
  pipeline(app, client, end);
}
