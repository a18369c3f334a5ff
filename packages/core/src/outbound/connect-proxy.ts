import { createServer, type IncomingMessage, type Server } from "node:http";
import { connect, isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { errorText } from "../errors.ts";
import { splice } from "../http-proxy.ts";
import type { Destination } from "./dial.ts";

/** Connections of a program at a time; skopeo uses six for layers. */
const maxConnections = 64;
const maxHeaderBytes = 16_384;
/** Limit of a tunnel without traffic, ms. */
const idleMs = 120_000;

/**
 * An HTTP proxy for one program that the server starts. It knows only CONNECT, and `dial` checks
 * each destination. A refusal is the sentence of its error, also in the status line, because Go
 * programs show only that.
 */
export class ConnectProxy {
  readonly #dial: (destination: Destination) => Promise<Socket>;
  readonly #server: Server;
  readonly #open = new Set<Duplex>();
  readonly #failures: Error[] = [];

  constructor(dial: (destination: Destination) => Promise<Socket>) {
    this.#dial = dial;
    this.#server = createServer({ maxHeaderSize: maxHeaderBytes, requestTimeout: idleMs });
    this.#server.on("request", (_request, response) => {
      response.writeHead(405, { connection: "close" }).end("This proxy knows only CONNECT.\n");
    });
    this.#server.on("connect", (request, client, head) => void this.#connect(request, client, head));
    this.#server.on("clientError", (_error, client) => client.destroy());
  }

  /** Serves a connection of the program; one above the limit is closed. */
  accept(connection: Duplex): void {
    connection.on("error", () => connection.destroy());
    if (this.#open.size >= maxConnections) return void connection.destroy();
    this.#hold(connection);
    this.#server.emit("connection", connection);
  }

  /** Joins a connection of the program to a port of this machine's loopback address. */
  relay(connection: Duplex, port: number): void {
    const upstream = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    connection.on("error", () => connection.destroy());
    this.#hold(connection);
    this.#hold(upstream);
    splice(connection, upstream, { idleMs });
  }

  /** The errors of `dial` so far. */
  get failures(): readonly Error[] {
    return this.#failures;
  }

  /** Cuts all connections. */
  close(): void {
    for (const connection of this.#open) connection.destroy();
  }

  async #connect(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    try {
      const upstream = await this.#dial(parseDestination(request.url ?? ""));
      upstream.on("error", () => upstream.destroy());
      this.#hold(upstream);
      if (head.length > 0) client.unshift(head);
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      splice(client, upstream, { idleMs });
    } catch (error) {
      if (this.#failures.length < maxConnections) this.#failures.push(error as Error);
      client.end(
        `HTTP/1.1 502 ${errorText(error).replace(/[^\x20-\x7e]/g, "?")}\r\nContent-Length: 0\r\n\r\n`,
      );
    }
  }

  #hold(connection: Duplex): void {
    this.#open.add(connection);
    connection.once("close", () => this.#open.delete(connection));
  }
}

/** Parses `host:port`. Throws TypeError for other texts. */
function parseDestination(text: string): Destination {
  const url = new URL(`http://${text}/`);
  const port = Number(/:(\d{1,5})$/.exec(text)?.[1]);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  const isPlain = url.pathname === "/" && !url.username && !url.password && !url.search && !url.hash;
  if (!isPlain || host === "" || !(port > 0 && port < 65_536) || (isIP(host) === 0 && host.length > 253))
    throw new TypeError("CONNECT needs a host and a port.");
  return { host, port };
}
