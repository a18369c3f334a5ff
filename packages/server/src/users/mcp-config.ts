import type { McpConfig } from "@sandpiper/wire";

/** What stands on the wire for a stored secret inside `mcp_config`. */
export const masked = "**********";

type Remote = McpConfig["sse_servers"][number];
type Stdio = McpConfig["stdio_servers"][number];

/** The configuration as read: keys and environment values masked (app-server.md section 5). */
export function maskMcpConfig(config: McpConfig): McpConfig {
  return {
    sse_servers: config.sse_servers.map(maskRemote),
    stdio_servers: config.stdio_servers.map((server) =>
      server.env ? { ...server, env: mapValues(server.env, () => masked) } : server,
    ),
    shttp_servers: config.shttp_servers.map(maskRemote),
  };
}

/**
 * The configuration to store when a client posts one. It replaces the stored one as a whole: lists that are absent are empty, and a
 * masked value becomes what is stored for the server of the same url or name, or nothing where there is none.
 */
export function mergeMcpConfig(posted: Partial<McpConfig>, stored: McpConfig | null): McpConfig {
  const { sse_servers: sse, stdio_servers: stdio, shttp_servers: shttp } = stored ?? noServers;
  const url = (server: Remote) => server.url;
  return {
    sse_servers: pairs(posted.sse_servers, [sse, shttp], url).map(restoreRemote),
    stdio_servers: pairs(posted.stdio_servers, [stdio], (server) => server.name).map(restoreStdio),
    shttp_servers: pairs(posted.shttp_servers, [shttp, sse], url).map(restoreRemote),
  };
}

const noServers: McpConfig = { sse_servers: [], stdio_servers: [], shttp_servers: [] };

/**
 * Each posted server with the stored one of the same identity, from the first list that has one. Among several stored servers
 * of one identity the first posted belongs to the first stored, the second to the second.
 */
function pairs<Server>(
  posted: readonly Server[] = [],
  lists: readonly (readonly Server[])[],
  identity: (server: Server) => string,
): [Server, Server | undefined][] {
  const seen = new Map<string, number>();
  return posted.map((server) => {
    const own = identity(server);
    const ordinal = seen.get(own) ?? 0;
    seen.set(own, ordinal + 1);
    const alike = lists.map((list) => list.filter((other) => identity(other) === own)).find((found) => found.length > 0);
    return [server, alike?.[ordinal] ?? alike?.[0]];
  });
}

function maskRemote(server: Remote): Remote {
  return server.api_key ? { ...server, api_key: masked } : server;
}

function restoreRemote([posted, stored]: [Remote, Remote | undefined]): Remote {
  const key = posted.api_key === masked ? stored?.api_key : posted.api_key;
  return { url: posted.url, ...(key && { api_key: key }) };
}

function restoreStdio([posted, stored]: [Stdio, Stdio | undefined]): Stdio {
  const server: Stdio = { name: posted.name, command: posted.command };
  if (posted.args) server.args = [...posted.args];
  if (posted.env) {
    const known = new Map(Object.entries(stored?.env ?? {}));
    const entries = Object.entries(posted.env).flatMap(([name, value]): [string, string][] => {
      if (value !== masked) return [[name, value]];
      const secret = known.get(name);
      return secret === undefined ? [] : [[name, secret]];
    });
    server.env = Object.fromEntries(entries);
  }
  return server;
}

function mapValues(record: Record<string, string>, change: (value: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}
