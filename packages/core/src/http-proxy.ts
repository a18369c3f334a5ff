import type { Duplex } from "node:stream";

const hopByHop = [
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["proxy-authenticate", "proxy-authorization", "proxy-authentication-info", "http2-settings", "expect"],
];

/**
 * The headers that a proxy does not pass on, in lower case: those of one connection (RFC 9110
 * section 7.6.1), those that `connection` names, and `expect`, which the proxy answers itself.
 */
export function hopByHopHeaders(connection: string | undefined): Set<string> {
  const named = (connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  return new Set([...hopByHop, ...named]);
}

interface Upstream extends Duplex {
  setTimeout?(ms: number, onTimeout: () => void): unknown;
}

/**
 * Joins two connections until both have ended, one has failed, or nothing has moved for `idleMs`.
 * Each half is closed as its sender closes it. `onDone` is called once the server's end is closed.
 * What the server sends passes `through`.
 */
export function splice(
  client: Duplex,
  server: Upstream,
  { idleMs, onDone = () => {}, through }: { idleMs?: number; onDone?: () => void; through?: Duplex } = {},
): void {
  const cut = () => {
    client.destroy();
    server.destroy();
  };
  if (idleMs !== undefined) server.setTimeout?.(idleMs, cut);
  server.once("error", cut).once("close", () => {
    // The server's last bytes may still be on their way to a slow client.
    if (!server.readableEnded) cut();
    else if (!through) client.end();
    onDone();
  });
  client.once("error", cut).once("close", cut);
  through?.once("error", cut);
  if (server.destroyed || client.destroyed) {
    cut();
    onDone();
  } else if (through) client.pipe(server).pipe(through).pipe(client);
  else client.pipe(server).pipe(client);
}
