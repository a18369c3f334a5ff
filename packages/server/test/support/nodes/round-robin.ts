import { once } from "node:events";
import {
  Agent,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

/** A proxy before several servers. */
export interface RoundRobin {
  url: string;
  /** Addresses of the servers in the order of their turns. The list may change at any time. */
  nodes: readonly string[];
  close(): Promise<void>;
}

/**
 * Starts a proxy for HTTP and WebSockets that never sends two requests of a client in a row to the
 * same server, where there are several. A client is a credential, or an address for a request
 * without one. The proxy skips a server that does not listen. A connection that breaks later breaks
 * for the client too.
 */
export async function startRoundRobin(nodes: readonly string[] = []): Promise<RoundRobin> {
  const turns = new Turns();
  const agent = new Agent({ keepAlive: true });
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  };
  // The proxy has no time limits, so only the servers behind it end slow connections.
  const server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 60_000 });
  server.on("connection", keep);
  server.on("request", (incoming, response) => {
    forward(incoming, response, { agent, order: turns.order(clientOf(incoming), proxy.nodes) });
  });
  server.on("upgrade", (incoming, socket: Socket, head) => {
    upgrade(incoming, { socket, head, keep }, turns.order(clientOf(incoming), proxy.nodes));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: RoundRobin = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    nodes,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      agent.destroy();
      await closed;
    },
  };
  return proxy;
}

/** The server whose turn it is, for each client. */
class Turns {
  readonly #next = new Map<string, number>();

  /** Returns all servers in the order in which the proxy tries them. */
  order(client: string, nodes: readonly string[]): string[] {
    // Clients begin at different servers.
    const turn = this.#next.get(client) ?? this.#next.size;
    this.#next.set(client, turn + 1);
    return nodes.map((_, index) => nodes[(turn + index) % nodes.length]!);
  }
}

function clientOf({ headers, url = "", socket }: IncomingMessage): string {
  const credential = headers["x-session-api-key"] ?? headers.authorization ?? headers.cookie;
  return String(credential ?? /[?&]session_api_key=([^&]+)/.exec(url)?.[1] ?? socket.remoteAddress);
}

/** Passes a request on to the first server that listens. */
function forward(
  incoming: IncomingMessage,
  response: ServerResponse,
  { agent, order: [node, ...others] }: { agent: Agent; order: readonly string[] },
): void {
  if (node === undefined) {
    response.writeHead(502).end("No server listens.");
    return;
  }
  const { method, rawHeaders, url: path } = incoming;
  const { hostname, port } = new URL(node);
  const outgoing = request({ agent, hostname, port, method, path, headers: pairsOf(rawHeaders) as never });
  const end = () => outgoing.destroy();
  response.once("close", end);
  outgoing.on("response", (answer) => {
    response.writeHead(answer.statusCode!, answer.statusMessage, withoutHop(answer));
    answer.pipe(response);
    answer.on("error", () => response.destroy());
  });
  outgoing.on("information", ({ statusCode }) => {
    if (statusCode === 103) response.writeEarlyHints({});
  });
  outgoing.on("error", (error: NodeJS.ErrnoException) => {
    response.off("close", end);
    if (error.code === "ECONNREFUSED") forward(incoming, response, { agent, order: others });
    else response.destroy();
  });
  // The body waits until a server listens.
  outgoing.once("socket", (socket) => {
    if (socket.connecting) socket.once("connect", () => incoming.pipe(outgoing));
    else incoming.pipe(outgoing);
  });
}

/** Passes a WebSocket on, byte by byte. */
function upgrade(
  incoming: IncomingMessage,
  client: { socket: Socket; head: Buffer; keep: (socket: Socket) => void },
  [node, ...others]: readonly string[],
): void {
  const { socket, head, keep } = client;
  if (node === undefined) {
    socket.end("HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n");
    return;
  }
  const { hostname, port } = new URL(node);
  const target = connect(Number(port), hostname);
  keep(target);
  target.once("connect", () => {
    const lines = pairsOf(incoming.rawHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
    target.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${lines.join("")}\r\n`);
    target.write(head);
    socket.pipe(target).pipe(socket);
    socket.once("close", () => target.destroy());
    target.once("close", () => socket.destroy());
  });
  target.once("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "ECONNREFUSED") upgrade(incoming, client, others);
    else socket.destroy();
  });
}

function pairsOf(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1]!] as [string, string]] : []));
}

/** Returns the headers of an answer without those of its connection. */
function withoutHop({ headers }: IncomingMessage): IncomingHttpHeaders {
  const { connection, "keep-alive": keepAlive, "transfer-encoding": encoding, ...rest } = headers;
  return rest;
}
