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

/** How long a server may take until its tools are known, ms: one that is a command may have to be fetched first. */
const openMs = { stdio: 180_000, remote: 30_000 };

/** For one call of a server's tools without a word from it, ms. Configurations give seconds. */
export function callTimeout({ timeout, sse_read_timeout: silence }: McpServer): number {
  return given(timeout) ?? Math.max(defaultTimeoutMs, given(silence) ?? 0);
}

/** For the connection to a server, ms; one that may take its time for calls has it here too, within limits. */
export function openTimeout({ command, timeout }: McpServer): number {
  return command ? openMs.stdio : Math.min(openMs.stdio, Math.max(openMs.remote, given(timeout) ?? 0));
}

/** How long a stream of a remote server's messages may be silent, ms; undefined where its configuration does not say. */
export function longestSilence({ sse_read_timeout: silence }: McpServer): number | undefined {
  return given(silence);
}

function given(seconds: number | null | undefined): number | undefined {
  return seconds ? Math.min(longestTimeoutMs, Math.max(1, seconds * 1_000)) : undefined;
}
