import { restore, restoreServers } from "@sandpiper/agent/mcp/config";
import { PlatformError } from "@sandpiper/core/errors";
import { McpServer, type McpServerPatch, type McpServers, type PostedMcpServer } from "@sandpiper/wire";

const maxServers = 300;

type ServerPatch = McpServerPatch | PostedMcpServer;

/**
 * The servers after sparse changes: null removes a server, an unknown name adds one. Throws
 * InvalidParameter.
 */
export function patchServers(stored: McpServers, patches: Record<string, ServerPatch | null>): McpServers {
  const next = new Map<string, McpServer>(Object.entries(stored));
  for (const [name, patch] of Object.entries(patches)) {
    if (patch === null) next.delete(name);
    else next.set(name, applyPatch(next.get(name), patch));
  }
  return checkServerCount(restoreServers(Object.fromEntries(next), stored));
}

/** Returns the servers. Throws InvalidParameter when there are too many. */
export function checkServerCount(servers: McpServers): McpServers {
  if (Object.keys(servers).length > maxServers)
    throw new PlatformError("TooManyMcpServers", { max: maxServers });
  return servers;
}

function applyPatch(stored: McpServer | undefined, patch: ServerPatch): McpServer {
  const next = new Map<string, unknown>(Object.entries(stored ?? {}));
  // A server has either a command or a URL; the patch may switch between them.
  if (patch.command) next.delete("url");
  else if (patch.url) next.delete("command");
  for (const [field, value] of Object.entries(patch)) {
    if (!Object.hasOwn(McpServer.properties, field)) continue;
    if (value === null) next.delete(field);
    else if (field === "env" || field === "headers")
      next.set(field, mergePatch(stored?.[field] ?? {}, value as Record<string, unknown>));
    else next.set(field, value);
  }
  return restore(Object.fromEntries(next) as McpServer, stored);
}

/**
 * Applies a JSON merge patch: objects merge key by key, null removes a key, other values replace.
 */
export function mergePatch(stored: unknown, patch: Record<string, unknown>): Record<string, unknown> {
  const next = new Map<string, unknown>(isRecord(stored) ? Object.entries(stored) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) next.delete(key);
    else next.set(key, isRecord(value) ? mergePatch(next.get(key), value) : value);
  }
  return Object.fromEntries(next);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
