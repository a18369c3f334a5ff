import { restore, restoreServers } from "@sandpiper/agent/mcp/config";
import { PlatformError } from "@sandpiper/core/errors";
import { McpServer, type McpServerPatch, type McpServers, type PostedMcpServer } from "@sandpiper/wire";

const maxServers = 300;

type ServerPatch = McpServerPatch | PostedMcpServer;

/** The servers after sparse changes to some of them; null takes one out, and an unknown name makes one. Throws InvalidParameter. */
export function patchServers(stored: McpServers, patches: Record<string, ServerPatch | null>): McpServers {
  const next = new Map<string, McpServer>(Object.entries(stored));
  for (const [name, patch] of Object.entries(patches)) {
    if (patch === null) next.delete(name);
    else next.set(name, applyPatch(next.get(name), patch));
  }
  return checkServerCount(restoreServers(Object.fromEntries(next), stored));
}

/** The same servers. Throws InvalidParameter where there are too many. */
export function checkServerCount(servers: McpServers): McpServers {
  if (Object.keys(servers).length > maxServers)
    throw new PlatformError(
      "InvalidParameter",
      `A user can have ${maxServers} MCP servers: remove some first.`,
    );
  return servers;
}

function applyPatch(stored: McpServer | undefined, patch: ServerPatch): McpServer {
  const next = new Map<string, unknown>(Object.entries(stored ?? {}));
  // One that becomes a command, or is reached by an address from now on.
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

/** A JSON merge patch: objects key by key, null takes a key out, everything else takes the old one's place. */
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
