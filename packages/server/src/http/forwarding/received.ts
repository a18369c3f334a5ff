import type { IncomingMessage } from "node:http";
import type { ConnectionGuard } from "../server/connections/connection-guard.ts";
import { type Passes, passHeader } from "./pass.ts";

const forwarded = new WeakSet<IncomingMessage>();

/** Whether another node has forwarded a request to this one, and counted it for the limits. */
export function isForwarded(request: IncomingMessage): boolean {
  return forwarded.has(request);
}

/**
 * Removes the pass from a request before other code reads the headers. A valid pass shows that
 * another node has forwarded the request: this node does not count its connection, and takes the
 * address of the client from the pass.
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
  // Earlier requests on the same connection may be those of other clients.
  delete (socket as { remoteAddress?: string }).remoteAddress;
  const pass = headers[passHeader];
  if (pass === undefined) return;
  delete headers[passHeader];
  // The app of a preview gets its headers from `headersDistinct`.
  delete request.headersDistinct[passHeader];
  const passed = passes.check({ node, method, url }, pass);
  if (!passed) return;
  forwarded.add(request);
  connections.exempt(socket);
  Object.defineProperty(socket, "remoteAddress", { value: passed.client, configurable: true });
}
