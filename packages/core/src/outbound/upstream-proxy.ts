import { request } from "node:http";
import type { Socket } from "node:net";
import { PlatformError } from "../errors.ts";
import type { Destination } from "./dial.ts";

/** An HTTP proxy of the operator's network, and the hosts that are reached without it. */
export interface UpstreamProxy {
  url: URL;
  /** `internal`, `.example.com` or `*.example.com`; `*` for all. */
  direct: readonly string[];
}

/** How long the proxy may take to connect, ms. */
const timeoutMs = 15_000;

/** The proxy that the usual variables name; undefined without one, or for one that is not HTTP. */
export function findUpstreamProxy(
  env: Readonly<Record<string, string | undefined>>,
): UpstreamProxy | undefined {
  const url = URL.parse(env.https_proxy || env.HTTPS_PROXY || "");
  if (url?.protocol !== "http:") return undefined;
  const direct = (env.no_proxy || env.NO_PROXY || "").toLowerCase().split(/[\s,]+/);
  return { url, direct: direct.filter((name) => name !== "") };
}

/** True when a destination is reached without the proxy. */
export function isDirect({ direct }: UpstreamProxy, host: string): boolean {
  return direct.some((name) => {
    const plain = name.replace(/^\*?\./, "").replace(/:\d+$/, "");
    return name === "*" || host === plain || host.endsWith(`.${plain}`);
  });
}

/** Opens a tunnel through the proxy. Throws PlatformError OutboundFailed. */
export function connectThrough({ url }: UpstreamProxy, { host, port }: Destination): Promise<Socket> {
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const user = [url.username, url.password].map(decodeURIComponent).join(":");
  const credentials = Buffer.from(user).toString("base64");
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => reject(new PlatformError("PortUnreached", { host, port, reason }));
    const tunnel = request({
      ...{ host: url.hostname.replace(/^\[(.*)\]$/, "$1"), port: url.port || 80 },
      ...{ method: "CONNECT", path: authority, timeout: timeoutMs, agent: false },
      headers: {
        host: authority,
        ...(user === ":" ? {} : { "proxy-authorization": `Basic ${credentials}` }),
      },
    });
    tunnel.once("connect", ({ statusCode }, socket, head) => {
      if (statusCode === 200) {
        socket.setTimeout(0);
        if (head.length > 0) socket.unshift(head);
        return resolve(socket as Socket);
      }
      socket.destroy();
      fail(`the proxy of the server answers ${statusCode}`);
    });
    tunnel.once("timeout", () => tunnel.destroy(Object.assign(new Error("slow"), { code: "ETIMEDOUT" })));
    tunnel.once("error", ({ code }: NodeJS.ErrnoException) => fail(`the proxy of the server: ${code}`));
    tunnel.end();
  });
}
