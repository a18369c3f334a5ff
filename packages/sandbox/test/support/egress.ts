import { execFile } from "node:child_process";
import { generateKeyPairSync, randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { NetworkPolicy } from "../../src/driver.ts";
import type { Listen } from "../../src/network/api.ts";
import { EgressProxy, type EgressProxyOptions } from "../../src/network/proxy/egress-proxy.ts";
import { createCertificate } from "../../src/network/tls/certificates.ts";

/** Real servers on their own loopback addresses, and a proxy that may reach them. */

const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
const names = {
  subject: "test",
  issuer: "test",
  key,
  issuerKey: key,
  from: Date.now() - 60_000,
  until: Date.now() + 600_000,
};
/** The certificate authority of the test's servers. */
export const testAuthority = createCertificate({ ...names, use: "authority" });

/** Returns a loopback address that no other test uses, so that well-known ports are free there. */
export function ownAddress(): string {
  return `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(2, 255)}`;
}

/** Serves HTTP; with `host` HTTPS with a certificate for that name. */
export async function serve(
  listener: RequestListener,
  at: { address: string; port?: number; host?: string },
): Promise<Server> {
  const cert =
    at.host === undefined ? "" : createCertificate({ ...names, subject: "leaf", use: { host: at.host } });
  const tls = () =>
    createTlsServer({ key: key.export({ type: "pkcs8", format: "pem" }), cert }, listener) as Server;
  const server = at.host === undefined ? createServer(listener) : tls();
  server.listen(at.port ?? 0, at.address);
  await once(server, "listening");
  return server;
}

export function portOf(server: { address(): AddressInfo | string | null }): number {
  return (server.address() as AddressInfo).port;
}

export const token = "token-of-the-sandbox";
export const policyOf = (change: Partial<NetworkPolicy>): NetworkPolicy => ({
  mode: "allowlist",
  allow: [],
  credentials: [],
  private: ["127.0.0.0/8"],
  ...change,
});

/** A proxy with listeners on the test's own loopback instead of sandboxes. */
export class TestProxy {
  readonly proxy: EgressProxy;
  readonly dir: string;
  readonly logged: string[];
  readonly ports = new Map<string, number>();

  private constructor(proxy: EgressProxy, dir: string, logged: string[]) {
    this.proxy = proxy;
    this.dir = dir;
    this.logged = logged;
  }

  static async open(options: Partial<EgressProxyOptions> = {}): Promise<TestProxy> {
    const dir = mkdtempSync("/tmp/sandpiper-test-");
    const logged: string[] = [];
    const log = (facts: object, text: string) => void logged.push(JSON.stringify(facts) + text);
    const logger = { debug: log, info: log, warn: log, error: log };
    const proxy = await EgressProxy.open({
      dir: join(dir, "network"),
      logger,
      trusted: [testAuthority],
      ...options,
    });
    return new TestProxy(proxy, dir, logged);
  }

  async attach(id: string, change: Partial<NetworkPolicy>): Promise<void> {
    const listen: Listen = async (_port, accept) => {
      const server = createTcpServer({ allowHalfOpen: true }, accept).listen(0, "127.0.0.1");
      await once(server, "listening");
      this.ports.set(id, portOf(server));
      return server;
    };
    await this.proxy.attach({ id, policy: policyOf(change), token }, listen);
  }

  /** Runs curl through the proxy; `head` is the status line and headers of the last response. */
  async curl(id: string, ...words: string[]) {
    const proxy = `http://sandbox:${token}@127.0.0.1:${this.ports.get(id)}`;
    const argv = ["-sS", "-i", "-m", "15", "--noproxy", "", "-x", proxy, ...words];
    return new Promise<{ code: number; out: string; err: string }>((resolve) => {
      const options = { encoding: "utf8", maxBuffer: 2 ** 28, env: { PATH: process.env.PATH } } as const;
      execFile("curl", argv, options, (error, out, err) =>
        resolve({ code: Number(error?.code ?? 0), out, err }),
      );
    });
  }

  connect(id: string): Socket {
    return connect({ port: this.ports.get(id)!, host: "127.0.0.1" }).on("error", () => {});
  }

  /**
   * Sends bytes and returns the response until the proxy closes, `enough` holds, or no more comes
   * for a while.
   */
  async raw(
    id: string,
    bytes: string | Buffer,
    enough = (text: string) => /^HTTP.*\r\n\r\n.*\n$/s.test(text),
  ): Promise<string> {
    const socket = this.connect(id);
    socket.write(bytes);
    let text = "";
    socket.setTimeout(5_000, () => socket.destroy());
    socket.on("data", (piece) => {
      text += piece.toString("latin1");
      if (enough(text)) socket.destroy();
    });
    await closed(socket);
    return text;
  }

  /** A connection through a tunnel, with the first bytes of the proxy's response. */
  async tunnel(id: string, authority: string): Promise<{ socket: Socket; status: number }> {
    const socket = this.connect(id);
    socket.write(
      `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: ${basic(token)}\r\n\r\n`,
    );
    let head = "";
    while (!head.includes("\r\n\r\n")) {
      const byte: Buffer | null = socket.read(1);
      if (byte === null) await once(socket, "readable");
      else head += byte;
    }
    return { socket, status: Number(head.split(" ")[1]) };
  }

  async close(): Promise<void> {
    await this.proxy.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Resolves when a socket is closed in any way. */
export function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => (socket.destroyed ? resolve() : socket.once("close", () => resolve())));
}

export function basic(secret: string, user = "sandbox"): string {
  return `Basic ${Buffer.from(`${user}:${secret}`).toString("base64")}`;
}

/** A request that reached a server. */
export interface SeenRequest {
  host: string;
  line: string;
  headers: string[];
  body: string;
}

/**
 * A listener that records each request in `seen` and answers with its method and the length of its
 * body.
 */
export function recordRequests(seen: SeenRequest[]): RequestListener {
  return async (request, response) => {
    const body = await text(request);
    const { headers, method, url, rawHeaders } = request;
    seen.push({ host: headers.host ?? "", line: `${method} ${url}`, headers: rawHeaders, body });
    if (url === "/reflect") {
      response.setHeader("x-reflected", headers.authorization ?? "");
      response.setHeader("set-cookie", ["a=1", "b=2"]);
      return response.end(`before ${headers.authorization} after`);
    }
    response.setHeader("content-type", "text/plain");
    response.end(`${method} ${body.length}`);
  };
}
