import type { IncomingMessage } from "node:http";
import type { ConnectionGuard } from "../server/connections/connection-guard.ts";
import { type Passes, passHeader } from "./pass.ts";

const forwarded = new WeakSet<IncomingMessage>();

/** Whether another node has forwarded a request to this one, and counted it for the limits. */
export function isForwarded(request: IncomingMessage): boolean {
  return forwarded.has(request);
}

/**
 * Takes the pass off a request before anything else reads its headers. With a valid one, the
 * request is another node's: its connection is not counted, and has the address of the client's.
 */
export function receivePass(
  request: IncomingMessage,
  {
    passes,
    node,
    connections,
  }: { passes: Passes; node: string; connections: Pick<ConnectionGuard, "exempt"> },
): void {
  const { socket, method = "GET", url = "/", headers } = request;
  // The requests before it on the connection may have been those of other clients.
  delete (socket as { remoteAddress?: string }).remoteAddress;
  const pass = headers[passHeader];
  if (pass === undefined) return;
  delete headers[passHeader];
  // The app of a preview gets the headers from there.
  delete request.headersDistinct[passHeader];
  const passed = passes.check({ node, method, url }, pass);
  if (!passed) return;
  forwarded.add(request);
  connections.exempt(socket);
  Object.defineProperty(socket, "remoteAddress", { value: passed.client, configurable: true });
}
