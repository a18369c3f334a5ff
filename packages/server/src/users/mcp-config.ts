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
  const remotes = [...(stored?.sse_servers ?? []), ...(stored?.shttp_servers ?? [])];
  return {
    sse_servers: (posted.sse_servers ?? []).map((server) => restoreRemote(server, stored?.sse_servers ?? [], remotes)),
    stdio_servers: (posted.stdio_servers ?? []).map((server) => restoreStdio(server, stored?.stdio_servers ?? [])),
    shttp_servers: (posted.shttp_servers ?? []).map((server) => restoreRemote(server, stored?.shttp_servers ?? [], remotes)),
  };
}

function maskRemote(server: Remote): Remote {
  return server.api_key ? { ...server, api_key: masked } : server;
}

/** Looks first among servers of the same transport: a url may be configured for both. */
function restoreRemote(posted: Remote, sameTransport: readonly Remote[], all: readonly Remote[]): Remote {
  const server: Remote = { url: posted.url };
  if (posted.api_key !== masked) {
    if (posted.api_key) server.api_key = posted.api_key;
    return server;
  }
  const key = [...sameTransport, ...all].find((other) => other.url === posted.url)?.api_key;
  if (key) server.api_key = key;
  return server;
}

function restoreStdio(posted: Stdio, stored: readonly Stdio[]): Stdio {
  const server: Stdio = { name: posted.name, command: posted.command };
  if (posted.args) server.args = [...posted.args];
  if (posted.env) {
    const known = new Map(Object.entries(stored.find((other) => other.name === posted.name)?.env ?? {}));
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
