import type { McpServer } from "@sandpiper/wire";

export interface ServerSpec {
  /** Unique in its conversation. */
  name: string;
  server: McpServer;
  /** A plugin (or skill) is less trusted than the user. */
  from: "user" | "plugin";
  /** Why its configuration may use no secret; undefined when it may. */
  withheld?: string;
}

/** Default and longest silence of a call, ms. */
const defaultTimeoutMs = 300_000;
const maxTimeoutMs = 3_600_000;

/** Time until the tools are known, ms: a command may have to be downloaded first. */
const openMs = { stdio: 180_000, remote: 30_000 };

/** Longest silence of a call, ms. Configurations give seconds. */
export function callTimeout({ timeout, sse_read_timeout: silence }: McpServer): number {
  return toMs(timeout) ?? Math.max(defaultTimeoutMs, toMs(silence) ?? 0);
}

/** Time to connect, ms; grows with the configured time-out, within limits. */
export function openTimeout({ command, timeout }: McpServer): number {
  return command ? openMs.stdio : Math.min(openMs.stdio, Math.max(openMs.remote, toMs(timeout) ?? 0));
}

/** Maximum silence of a remote server's stream, ms; undefined when not configured. */
export function getMaxSilence({ sse_read_timeout: silence }: McpServer): number | undefined {
  return toMs(silence);
}

function toMs(seconds: number | null | undefined): number | undefined {
  return seconds ? Math.min(maxTimeoutMs, Math.max(1, seconds * 1_000)) : undefined;
}
