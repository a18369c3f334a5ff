import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestListener,
  request,
  type Server,
} from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { PlatformError } from "@sandpiper/core/errors";
import { key, startServer, type TestServer } from "./test-server.ts";

/** A server whose sandboxes' ports are servers on loopback, for tests of previews. */
export class PreviewBench {
  readonly server: TestServer;
  /** The listening apps, by port of the sandbox `sbx-one`. */
  readonly #ports = new Map<number, number>();
  readonly #servers: Server[] = [];

  private constructor(server: TestServer) {
    this.server = server;
    server.sandboxes.add({ id: "sbx-one" });
    server.sandboxes.add({ id: "sbx-two" });
    server.sandboxes.add({ id: "sbx-theirs", userId: "stranger" });
    // The values that the service would return; there is no engine.
    Object.assign(server.sandboxes, {
      connect: async (id: string, port: number) => {
        const to = id === "sbx-one" ? this.#ports.get(port) : undefined;
        if (to === undefined)
          throw new PlatformError("PortUnreachable", `Nothing listens on port ${port} in the sandbox ${id}.`);
        const socket = connect(to, "127.0.0.1");
        await once(socket, "connect");
        return socket;
      },
    });
  }

  static async start(config: Parameters<typeof startServer>[0] = {}): Promise<PreviewBench> {
    return new PreviewBench(await startServer(config));
  }

  /** Lets an app answer on a port of `sbx-one`. */
  async app(port: number, listener: RequestListener): Promise<Server> {
    const server = createServer({ requireHostHeader: false }, listener);
    await this.#listen(port, server);
    return server;
  }

  /** Lets something that may not speak HTTP answer on a port of `sbx-one`. */
  async rawApp(port: number, serve: (socket: Socket) => void): Promise<void> {
    await this.#listen(
      port,
      createTcpServer((socket) => {
        socket.on("error", () => {});
        serve(socket);
      }) as Server,
    );
  }

  async #listen(port: number, server: Server): Promise<void> {
    await once(server.listen(0, "127.0.0.1"), "listening");
    this.#servers.push(server);
    this.#ports.set(port, (server.address() as AddressInfo).port);
  }

  host(port: number | string, id = "sbx-one"): string {
    return `${port}-${id}.localhost:${this.server.port}`;
  }

  /** Sends a request as it is; the user's key goes with it unless `key` is null. */
  call(
    path: string,
    { host, headers, key: sent = key, method = "GET", body }: PreviewCall = {},
  ): Promise<PreviewAnswer> {
    return new Promise((resolve, reject) => {
      const call = request(
        {
          host: "127.0.0.1",
          port: this.server.port,
          path,
          method,
          headers: {
            ...(host ? { host } : {}),
            ...(sent === null ? {} : { "x-session-api-key": sent }),
            ...headers,
          },
          agent: false,
          timeout: 150_000,
        },
        (answer) => resolve(read(answer)),
      );
      call.on("timeout", () => call.destroy(new Error(`${method} ${path}: no answer`)));
      call.on("error", reject);
      call.end(body);
    });
  }

  /** A link as the API returns it. */
  async link(port: number, id = "sbx-one"): Promise<{ url: URL; pathUrl: URL }> {
    const answer = await this.call(`/api/v1/sandboxes/${id}/preview?port=${port}`);
    const { url, path_url } = JSON.parse(answer.text);
    return { url: new URL(url), pathUrl: new URL(path_url) };
  }

  /** Opens a link like a browser; returns the cookies that it gets. */
  async session(port: number): Promise<string> {
    const { url } = await this.link(port);
    const answer = await this.call(url.pathname + url.search, {
      host: url.host,
      key: null,
      headers: navigation,
    });
    return answer.headers["set-cookie"]![0]!.split(";")[0]!;
  }

  /** The path of a preview in the path form, with a session in it. */
  async pathSession(port: number): Promise<string> {
    const { pathUrl } = await this.link(port);
    const answer = await this.call(pathUrl.pathname + pathUrl.search, { key: null, headers: navigation });
    return answer.headers.location!;
  }

  endApps(): void {
    for (const server of this.#servers) {
      server.closeAllConnections?.();
      server.close();
    }
  }

  async close(): Promise<void> {
    this.endApps();
    await this.server.close();
  }
}

interface PreviewCall {
  host?: string;
  headers?: OutgoingHttpHeaders;
  key?: string | null;
  method?: string;
  body?: string | Buffer;
}

export interface PreviewAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** The headers of a browser for a page that its user opens. */
export const navigation = {
  "sec-fetch-mode": "navigate",
  "sec-fetch-dest": "document",
  "sec-fetch-site": "none",
  accept: "text/html,*/*",
};

async function read(answer: IncomingMessage): Promise<PreviewAnswer> {
  return { status: answer.statusCode!, headers: answer.headers, text: (await buffer(answer)).toString() };
}

/** An app that echoes its requests. */
export const echo: RequestListener = async (request, response) => {
  const body = (await buffer(request)).toString();
  const { method, url, headers } = request;
  response.setHeader("content-type", "application/json").end(JSON.stringify({ method, url, headers, body }));
};
