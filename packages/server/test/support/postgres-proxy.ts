import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** Message types of PostgreSQL's protocol, from the server. */
const notification = "A".charCodeAt(0);

export interface PostgresProxy {
  /** The address of a database behind the proxy. */
  url(direct: string): string;
  /** True when the proxy drops notifications, as a pooler does. */
  dropsNotifications: boolean;
  /**
   * Cuts the next connection on which a client sends a message with this text, when the server has
   * answered and before the client sees it. Undefined: none.
   */
  cutsAnswerTo: string | undefined;
  /** Number of connections that the proxy has cut. */
  readonly cuts: number;
  /** How often a client has sent something after an answer, or as the first thing. */
  readonly roundTrips: number;
  close(): Promise<void>;
}

/**
 * A TCP proxy in front of a test's PostgreSQL server, which drops notifications and answers as the
 * test says.
 */
export async function startPostgresProxy(port: number): Promise<PostgresProxy> {
  const sockets = new Set<Socket>();
  const state = {
    dropsNotifications: false,
    cutsAnswerTo: undefined as string | undefined,
    cuts: 0,
    roundTrips: 0,
  };
  const server = createServer((client) => {
    const target = connect(port, "127.0.0.1");
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        for (const other of [client, target]) other.destroy();
      });
    }
    let isDoomed = false;
    let isAnswered = true;
    client.on("data", (data: Buffer) => {
      if (isAnswered) state.roundTrips++;
      isAnswered = false;
      if (state.cutsAnswerTo !== undefined && data.includes(state.cutsAnswerTo)) {
        isDoomed = true;
        state.cutsAnswerTo = undefined;
      }
      target.write(data);
    });
    let rest = Buffer.alloc(0);
    target.on("data", (data: Buffer) => {
      isAnswered = true;
      if (isDoomed) {
        state.cuts++;
        client.destroy();
        return;
      }
      rest = Buffer.concat([rest, data]);
      const parts: Buffer[] = [];
      // A message consists of its type, its length without the type, and its content.
      while (rest.length >= 5 && rest.length >= 1 + rest.readUInt32BE(1)) {
        const end = 1 + rest.readUInt32BE(1);
        if (!(state.dropsNotifications && rest[0] === notification)) parts.push(rest.subarray(0, end));
        rest = rest.subarray(end);
      }
      if (parts.length > 0) client.write(Buffer.concat(parts));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port: own } = server.address() as { port: number };
  return Object.assign(state, {
    url(direct: string) {
      const url = new URL(direct);
      url.port = String(own);
      return url.href;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}
