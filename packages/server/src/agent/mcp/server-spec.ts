import type { McpServer } from "@sandpiper/wire";

/** An MCP server of a conversation. */
export interface ServerSpec {
  /** Unique in its conversation. */
  name: string;
  server: McpServer;
  /** Who named it: the user, or a plugin or a skill, which is somebody else's text. */
  from: "user" | "plugin";
}

/** How long a call may take without a word, ms, where a server says nothing else, and at most. */
const defaultTimeoutMs = 300_000;
const longestTimeoutMs = 3_600_000;

/** For one call of a server's tools without a word from it, ms. Configurations give seconds. */
export function callTimeout({ timeout }: McpServer): number {
  return timeout ? Math.min(longestTimeoutMs, Math.max(1, timeout * 1_000)) : defaultTimeoutMs;
}
