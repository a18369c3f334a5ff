import type { Server } from "node:http";
import type { Config } from "../../config/config.ts";

/** The path of a request's URL, percent-decoded if possible. */
export function decodePath(url: string): string {
  const path = url.split("?", 1)[0]!;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const secretName = /key|token|secret|password|auth/i;

/** A request's URL for logs: masks query parameters with a secret's name. */
export function maskUrl(url: string): string {
  const [path, query] = url.split(/\?(.*)/s, 2);
  if (!query) return path!;
  const shown = query.split("&").map((pair) => {
    const name = pair.split("=", 1)[0]!;
    return secretName.test(decodePath(name)) ? `${name}=***` : pair;
  });
  return `${path}?${shown.join("&")}`;
}

/**
 * Caches the address of each listening server: every request needs it, and the system call is slow.
 */
const addresses = new WeakMap<Server, string>();

/**
 * The server's public URL without a trailing slash: the configured one, else host and bound port. A
 * wildcard host becomes loopback, because clients cannot connect to a wildcard.
 */
export function getPublicUrl(config: Pick<Config, "publicUrl" | "host" | "port">, server: Server): string {
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
