import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** Joins two connections until both have ended, one has failed, or nothing has moved for a while. Each half is closed as its sender closes it. */
export function splice(client: Duplex, server: Socket, idleMs: number, done: () => void): void {
  const cut = () => {
    client.destroy();
    server.destroy();
  };
  server.setTimeout(idleMs, cut);
  server.once("error", cut).once("close", () => {
    // What the server sent last may still be on its way to a slow client.
    if (server.readableEnded) client.end();
    else cut();
    done();
  });
  client.once("error", cut).once("close", cut);
  if (server.destroyed || client.destroyed) {
    cut();
    done();
  } else client.pipe(server).pipe(client);
}
