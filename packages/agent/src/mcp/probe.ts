import { errorText } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import type { McpTestAnswer } from "@sandpiper/wire";
import { maskText } from "@sandpiper/wire";
import { type RemoteAddress, remoteAddress } from "./addresses.ts";
import { serverSecrets } from "./config.ts";
import { openRemote } from "./open-session.ts";
import { resultContent } from "./result.ts";
import type { ServerSpec } from "./server-spec.ts";

/** For a whole test, ms. */
const defaultTimeoutMs = 15_000;

const maxErrorLength = 500;
const maxToolText = 20_000;

/** Texts of a configuration that are shorter than this are too common in ordinary text to be masked in it. */
const minHiddenLength = 4;

export interface ProbeOptions {
  outbound: Pick<Outbound, "fetch">;
  /** Those that a configuration may name. */
  secrets: readonly SandboxSecret[];
  /** For the whole test, ms. */
  timeoutMs?: number;
  /** A tool to call after the tools are listed. */
  toolCall?: { name: string; arguments?: Record<string, unknown> } | undefined;
}

/**
 * Connects to a remote MCP server as agents do, lists its tools and calls the one that is asked for. What goes wrong is told in the result, without secrets
 * of the server. Servers that are commands run in sandboxes only: the platform's own machine runs nothing that users name.
 */
export async function probeMcpServer(
  spec: ServerSpec,
  { outbound, secrets, timeoutMs = defaultTimeoutMs, toolCall }: ProbeOptions,
): Promise<McpTestAnswer> {
  const { server } = spec;
  if (!server.url) {
    const error =
      "This server is a command: it runs inside sandboxes only, so it cannot be tested from here.";
    return { ok: false, error, error_kind: "unknown" };
  }
  let address: RemoteAddress;
  try {
    address = remoteAddress(spec, { secrets, policy: { mode: "open", allow: [], credentials: [] } });
  } catch (error) {
    return { ok: false, error: errorText(error).slice(0, maxErrorLength), error_kind: "unknown" };
  }
  // Whoever tests a server knows that all its headers may be secrets.
  const hidden = [...address.hidden, ...Object.values(address.headers), ...serverSecrets({ server })];
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const session = await openRemote(spec, { ...address, hidden }, { outbound, onChange() {}, signal });
    try {
      const tools = session.tools.map(({ name }) => name);
      if (!toolCall) return { ok: true, tools };
      const answer = await session.call(toolCall.name, toolCall.arguments ?? {}, { timeoutMs, signal });
      const { content, isError } = resultContent(answer);
      const text = content
        .flatMap((part) => (part.type === "text" ? [session.shown(part.text)] : []))
        .join("\n");
      return {
        ok: true,
        tools,
        tool_result: { is_error: isError, text: masked(text, hidden).slice(0, maxToolText) },
      };
    } finally {
      session.close();
    }
  } catch (error) {
    if (signal.aborted)
      return { ok: false, error: "The server did not answer in time.", error_kind: "timeout" };
    return {
      ok: false,
      error: masked(errorText(error), hidden).slice(0, maxErrorLength),
      error_kind: "connection",
    };
  }
}

/** A text without the short secrets too, which the matcher of a session leaves. */
function masked(text: string, hidden: readonly string[]): string {
  return hidden
    .filter((secret) => secret.length >= minHiddenLength)
    .sort((a, b) => b.length - a.length)
    .reduce((shown, secret) => shown.replaceAll(secret, maskText), text);
}
