import { errorText } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import type { McpTestAnswer } from "@sandpiper/wire";
import { maskText } from "@sandpiper/wire";
import { type RemoteAddress, resolveAddress } from "./addresses.ts";
import { serverSecrets } from "./config.ts";
import { openRemote } from "./open-session.ts";
import { resultContent } from "./result.ts";
import type { ServerSpec } from "./server-spec.ts";

/** For the whole test, ms. */
const defaultTimeoutMs = 15_000;

const maxErrorLength = 500;
const maxToolText = 20_000;

/** Shorter texts are too common to be masked. */
const minHiddenLength = 4;

export interface ProbeOptions {
  outbound: Pick<Outbound, "fetch">;
  /** Secrets that the configuration may name. */
  secrets: readonly SandboxSecret[];
  /** For the whole test, ms. */
  timeoutMs?: number;
  /** A tool to call after the tools are listed. */
  toolCall?: { name: string; arguments?: Record<string, unknown> } | undefined;
}

/**
 * Connects to a remote MCP server, lists its tools and calls the requested one. Errors are part of
 * the result, masked. Command servers only run in sandboxes.
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
    address = resolveAddress(spec, { secrets, policy: { mode: "open", allow: [], credentials: [] } });
  } catch (error) {
    return { ok: false, error: errorText(error).slice(0, maxErrorLength), error_kind: "unknown" };
  }
  // All headers may be secret.
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
        .flatMap((part) => (part.type === "text" ? [session.mask(part.text)] : []))
        .join("\n");
      return {
        ok: true,
        tools,
        tool_result: { is_error: isError, text: maskAll(text, hidden).slice(0, maxToolText) },
      };
    } finally {
      session.close();
    }
  } catch (error) {
    if (signal.aborted)
      return { ok: false, error: "The server did not answer in time.", error_kind: "timeout" };
    return {
      ok: false,
      error: maskAll(errorText(error), hidden).slice(0, maxErrorLength),
      error_kind: "connection",
    };
  }
}

/** Masks short secrets too, which the session's matcher skips. */
function maskAll(text: string, hidden: readonly string[]): string {
  return hidden
    .filter((secret) => secret.length >= minHiddenLength)
    .sort((a, b) => b.length - a.length)
    .reduce((shown, secret) => shown.replaceAll(secret, maskText), text);
}
