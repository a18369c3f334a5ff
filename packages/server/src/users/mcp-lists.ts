import { isKeyed, maxServerNameLength, restore } from "@sandpiper/agent/mcp/config";
import { trimBoth } from "@sandpiper/core/trim";
import type { McpAuth, McpConfig, McpServer, McpServers } from "@sandpiper/wire";
import { isMasked } from "@sandpiper/wire";

type Remote = McpConfig["sse_servers"][number];
type Stdio = McpConfig["stdio_servers"][number];
type Named = [name: string, server: McpServer];

/**
 * The servers to store when a V0 client posts the three lists, which replace all stored servers. A
 * masked key or variable, fields that V0 does not know, and the name are taken from the stored
 * server with the same URL or name.
 */
export function mergeServerLists(posted: Partial<McpConfig>, stored: McpServers): McpServers {
  const entries = Object.entries(stored);
  const stdio = entries.filter(([, server]) => server.command);
  const sse = entries.filter(([, { url, transport, command }]) => url && !command && transport === "sse");
  const shttp = entries.filter(([, { url, transport, command }]) => url && !command && transport !== "sse");
  const byUrl = ([, server]: Named) => server.url ?? "";
  const result = new Map<string, McpServer>();
  const add = (wanted: string, server: McpServer) =>
    result.set(
      chooseFreeName(wanted, (name) => result.has(name)),
      server,
    );
  // Matched servers come first, so that no new server takes a stored name.
  const remotes = [
    ...matchServers(posted.sse_servers, ({ url }) => url, [sse, shttp], byUrl).map((pair) => ({
      pair,
      sse: true,
    })),
    ...matchServers(posted.shttp_servers, ({ url }) => url, [shttp, sse], byUrl).map((pair) => ({
      pair,
      sse: false,
    })),
  ];
  for (const [server, match] of matchServers(
    posted.stdio_servers,
    ({ name }) => name,
    [stdio],
    ([name]) => name,
  ))
    add(server.name, stdioServer(server, match?.[1]));
  for (const { pair, sse: isSse } of remotes.filter(({ pair: [, match] }) => match))
    add(pair[1]![0], remoteServer(pair[0], isSse, pair[1]![1]));
  for (const { pair, sse: isSse } of remotes.filter(({ pair: [, match] }) => !match))
    add(toHostName(pair[0].url), remoteServer(pair[0], isSse, undefined));
  return Object.fromEntries(result);
}

/**
 * Pairs each posted server with the stored one of the same identity, from the first list that has
 * one. Several servers with one identity are paired in order.
 */
function matchServers<Server>(
  posted: readonly Server[] = [],
  identity: (server: Server) => string,
  lists: readonly (readonly Named[])[],
  storedIdentity: (stored: Named) => string,
): [Server, Named | undefined][] {
  const seen = new Map<string, number>();
  return posted.map((server) => {
    const own = identity(server);
    const ordinal = seen.get(own) ?? 0;
    seen.set(own, ordinal + 1);
    const alike = lists
      .map((list) => list.filter((other) => storedIdentity(other) === own))
      .find((found) => found.length > 0);
    return [server, alike?.[ordinal] ?? alike?.[0]];
  });
}

function remoteServer({ url, api_key: key }: Remote, sse: boolean, stored: McpServer | undefined): McpServer {
  const { auth: storedAuth, transport: storedTransport, ...rest } = stored ?? {};
  const http = storedTransport && storedTransport !== "sse" ? storedTransport : "http";
  const auth = toAuth(key, storedAuth ?? undefined);
  return { ...rest, url, transport: sse ? "sse" : http, ...(auth && { auth }) };
}

/** V0 knows only keys: an absent key removes the stored one; other kinds of `auth` stay. */
function toAuth(key: string | null | undefined, stored: McpAuth | undefined): McpAuth | undefined {
  if (isMasked(key)) return stored;
  if (key) return isKeyed(stored) ? { ...stored, value: key } : { strategy: "bearer", value: key };
  return isKeyed(stored) ? undefined : stored;
}

function stdioServer({ command, args, env }: Stdio, stored: McpServer | undefined): McpServer {
  const { args: _, env: __, ...rest } = stored ?? {};
  const server: McpServer = {
    ...rest,
    transport: "stdio",
    command,
    ...(args && { args: [...args] }),
    ...(env && { env }),
  };
  return restore(server, stored);
}

/** The host of a URL as the name of a server. */
function toHostName(url: string): string {
  const host = URL.canParse(url) ? new URL(url).hostname : "";
  return trimBoth(host.replaceAll(/[^A-Za-z0-9_-]+/g, "-"), "-") || "server";
}

/** The wanted name, numbered if it is taken. `__proto__` is not allowed as a key in JSON bodies. */
function chooseFreeName(wanted: string, taken: (name: string) => boolean): string {
  const base = wanted === "__proto__" ? "_proto_" : wanted.slice(0, maxServerNameLength - 4) || "server";
  let name = base;
  for (let number = 2; taken(name); number++) name = `${base}-${number}`;
  return name;
}
