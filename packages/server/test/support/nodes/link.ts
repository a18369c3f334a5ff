import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** The network between one node and its database. */
export interface Link {
  /** The address of a server behind the link. */
  url(direct: string): string;
  /** Delay before the link passes bytes on, ms. */
  delayMs: number;
  /** Resets all connections and refuses new ones until `restore`. */
  cut(): void;
  /** Passes nothing on and loses nothing until `restore`; connections stay open. */
  stall(): void;
  /** Passes nothing more on for the open connections; other ones work. */
  silence(): void;
  restore(): void;
  close(): Promise<void>;
}

/** Opens a link to a port of the loopback address. */
export async function openLink(port: number): Promise<Link> {
  const sockets = new Set<Socket>();
  let [isCut, isStalled] = [false, false];
  const keep = (socket: Socket) => {
    if (isStalled) socket.pause();
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    if (isCut) return void client.resetAndDestroy();
    const target = connect(port, "127.0.0.1");
    keep(client);
    keep(target);
    pass(client, target, link);
    pass(target, client, link);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port: own } = server.address() as AddressInfo;
  const link: Link = {
    delayMs: 0,
    url(direct) {
      const url = new URL(direct);
      url.port = String(own);
      return url.href;
    },
    cut() {
      isCut = true;
      for (const socket of sockets) socket.resetAndDestroy();
    },
    stall() {
      isStalled = true;
      for (const socket of sockets) socket.pause();
    },
    silence() {
      for (const socket of sockets) socket.pause();
    },
    restore() {
      [isCut, isStalled] = [false, false];
      for (const socket of sockets) socket.resume();
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
  return link;
}

/** Passes on the bytes of one side, and then its end. */
function pass(from: Socket, to: Socket, link: Pick<Link, "delayMs">): void {
  let before = Promise.resolve();
  from.on("data", (data) => {
    const at = performance.now() + link.delayMs;
    before = before.then(async () => {
      const wait = at - performance.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      to.write(data);
    });
  });
  from.on("close", () => to.destroy());
}
