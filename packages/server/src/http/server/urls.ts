import type { Server } from "node:http";
import type { Config } from "../../config/config.ts";

/** The path of a request's URL, percent-decoded where that is possible. */
export function decodedPath(url: string): string {
  const path = url.split("?", 1)[0]!;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const secretName = /key|token|secret|password|auth/i;

/** A request's URL as logs may show it: values of query parameters with a secret's name are masked. */
export function loggableUrl(url: string): string {
  const [path, query] = url.split(/\?(.*)/s, 2);
  if (!query) return path!;
  const shown = query.split("&").map((pair) => {
    const name = pair.split("=", 1)[0]!;
    return secretName.test(decodedPath(name)) ? `${name}=***` : pair;
  });
  return `${path}?${shown.join("&")}`;
}

/** Addresses of servers that listen: every request asks, and the system takes its time to tell. */
const addresses = new WeakMap<Server, string>();

/**
 * The address under which clients reach this server, without a trailing slash: the configured one, else host and bound port.
 * A wildcard host becomes loopback, for a client cannot connect to a wildcard.
 */
export function publicUrl(config: Pick<Config, "publicUrl" | "host" | "port">, server: Server): string {
  if (config.publicUrl !== undefined) return config.publicUrl;
  const known = addresses.get(server);
  if (known) return known;
  const bound = server.address();
  const port = bound !== null && typeof bound === "object" ? bound.port : config.port;
  const host = config.host === "0.0.0.0" || config.host === "::" ? "127.0.0.1" : config.host;
  const url = `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
  if (bound) addresses.set(server, url);
  return url;
}
