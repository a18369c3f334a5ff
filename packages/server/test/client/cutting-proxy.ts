import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP proxy that a test cuts, and that can go silent without closing a connection. */
export class CuttingProxy {
  readonly #server = createServer((client) => this.#join(client));
  readonly #target: number;
  readonly #open = new Set<Socket>();
  readonly #silent = new WeakSet<Socket>();
  /** Bytes of the server after which the next connection is cut; undefined: never. */
  nextCut: () => number | undefined = () => undefined;
  /** Connections so far. */
  connections = 0;

  private constructor(target: number) {
    this.#target = target;
  }

  /** Starts a proxy for a port of loopback. */
  static async start(target: number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(target);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Sockets that are open, on both sides. */
  get openConnections(): number {
    return this.#open.size;
  }

  #join(client: Socket): void {
    this.connections++;
    const server = connect(this.#target, "127.0.0.1");
    let left = this.nextCut() ?? Number.POSITIVE_INFINITY;
    for (const socket of [client, server]) {
      this.#open.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => {
        this.#open.delete(socket);
        client.destroy();
        server.destroy();
      });
    }
    client.on("data", (bytes) => void (this.#silent.has(client) || server.write(bytes)));
    server.on("data", (bytes: Buffer) => {
      if (this.#silent.has(client)) return;
      client.write(bytes.subarray(0, left));
      left -= bytes.length;
      if (left <= 0) client.destroySoon();
    });
  }

  /** Cuts all connections. */
  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  /** Passes nothing on in the connections that are open, as when a machine has slept. */
  silence(): void {
    for (const socket of this.#open) this.#silent.add(socket);
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }
}
