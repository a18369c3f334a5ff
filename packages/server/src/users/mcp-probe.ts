import type { McpServer, McpTestAnswer } from "@sandpiper/wire";
import { maskText } from "@sandpiper/wire";
import { errorText, PlatformError } from "../errors.ts";
import type { Outbound } from "../outbound/api.ts";
import { serverSecrets } from "./mcp-config.ts";
import { authHeaders, credentialHeaders } from "./mcp-headers.ts";

/** For a whole test, ms. */
const defaultTimeoutMs = 15_000;

/** For one request of a test; the test's own time ends it sooner, ms. */
const longestMs = 120_000;

/** Longest answer of a server, bytes. */
const maxBytes = 4 * 1024 * 1024;

const maxPages = 10;
const maxErrorLength = 500;
const maxToolText = 20_000;

/** Secrets shorter than this are too common in ordinary text to be masked in it. */
const minSecretLength = 4;

/** A call of one of a server's tools. */
interface ToolCall {
  name: string;
  arguments?: Record<string, unknown>;
}

export interface ProbeOptions {
  /** For the whole test, ms. */
  timeoutMs?: number;
  /** A tool to call after the tools are listed. */
  toolCall?: ToolCall | undefined;
  /** Texts beside the server's own secrets that the result must not show. */
  hidden?: readonly string[];
}

/**
 * Connects to a remote MCP server, lists its tools and calls the one that is asked for. What goes wrong is told in the result, without
 * secrets of the server. Servers that are commands run in sandboxes only: the platform's own machine runs nothing that users name.
 */
export async function probeMcpServer(
  server: McpServer,
  outbound: Outbound,
  { timeoutMs = defaultTimeoutMs, toolCall, hidden = [] }: ProbeOptions = {},
): Promise<McpTestAnswer> {
  if (!server.url) {
    const error = "This server is a command: it runs inside sandboxes only, so it cannot be tested from here.";
    return { ok: false, error, error_kind: "unknown" };
  }
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    return { ok: true, ...(await look(server, server.url, outbound, deadline, toolCall)) };
  } catch (error) {
    if (deadline.aborted) return { ok: false, error: "The server did not answer in time.", error_kind: "timeout" };
    return { ok: false, error: shownError(error, server, hidden), error_kind: "connection" };
  }
}

async function look(
  server: McpServer,
  url: string,
  outbound: Outbound,
  signal: AbortSignal,
  toolCall: ToolCall | undefined,
): Promise<Pick<McpTestAnswer, "tools" | "tool_result">> {
  if (!URL.canParse(url)) throw new PlatformError("OutboundRefused", "The url of the server is not a valid address.");
  // Loaded when it is needed: the protocol's library is large, and most servers never test one.
  const [{ Client }, { StreamableHTTPClientTransport }, { SSEClientTransport }] = await Promise.all([
    import("@modelcontextprotocol/sdk/client/index.js"),
    import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    import("@modelcontextprotocol/sdk/client/sse.js"),
  ]);
  const options = { fetch: guardedFetch(outbound, credentialHeaders(server), signal) };
  const address = new URL(url);
  const transport =
    server.transport === "sse" ? new SSEClientTransport(address, options) : new StreamableHTTPClientTransport(address, options);
  const client = new Client({ name: "sandpiper", version: "0.1.0" });
  try {
    await client.connect(transport, { timeout: longestMs, signal });
    const names: string[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const { tools, nextCursor } = await client.listTools({ ...(cursor && { cursor }) }, { timeout: longestMs, signal });
      names.push(...tools.map(({ name }) => name));
      cursor = nextCursor;
      if (!cursor) break;
    }
    if (!toolCall) return { tools: names };
    const said = await client.callTool({ name: toolCall.name, arguments: toolCall.arguments ?? {} }, undefined, {
      timeout: longestMs,
      signal,
    });
    return { tools: names, tool_result: { is_error: said.isError === true, text: textOf(said.content) } };
  } finally {
    await client.close().catch(() => {});
  }
}

/** The texts of a tool's answer. */
function textOf(content: unknown): string {
  const parts = Array.isArray(content) ? (content as { text?: unknown }[]) : [];
  const texts = parts.flatMap(({ text }) => (typeof text === "string" ? [text] : []));
  return texts.join("\n").slice(0, maxToolText);
}

/** The library's requests through the guarded way out, with the server's own credentials. */
function guardedFetch(outbound: Outbound, credentials: Record<string, string>, deadline: AbortSignal) {
  const secret = Object.keys(credentials).length > 0;
  return async (url: string | URL, init: RequestInit = {}): Promise<Response> =>
    outbound.fetch(String(url), {
      method: init.method ?? "GET",
      headers: { ...Object.fromEntries(new Headers(init.headers)), ...credentials },
      ...(typeof init.body === "string" && { body: init.body }),
      timeoutMs: longestMs,
      maxBytes,
      secret,
      signal: init.signal ? AbortSignal.any([init.signal, deadline]) : deadline,
    });
}

/** The text of an error without what the server was sent, in case it repeats that. */
function shownError(error: unknown, server: McpServer, hidden: readonly string[]): string {
  const secrets = [...serverSecrets({ server }), ...Object.values(authHeaders(server.auth)), ...hidden];
  const text = secrets
    .filter((secret) => secret.length >= minSecretLength)
    .sort((a, b) => b.length - a.length)
    .reduce((shown, secret) => shown.replaceAll(secret, maskText), errorText(error));
  return text.slice(0, maxErrorLength);
}
