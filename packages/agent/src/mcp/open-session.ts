import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import type { NetworkPolicy } from "@sandpiper/sandbox/driver";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { type RemoteAddress, resolveAddress } from "./addresses.ts";
import type { PolicedOutbounds } from "./policed-outbound.ts";
import { refusedStatus } from "./remote-fetch.ts";
import { remoteTransport } from "./remote-transport.ts";
import { startServer } from "./sandbox-server.ts";
import type { OpenSession } from "./server-link.ts";
import { getMaxSilence, type ServerSpec } from "./server-spec.ts";
import { McpSession } from "./session.ts";
import { GuardedTransport } from "./transport.ts";

export interface McpDeps {
  /** The way to servers of the user's configuration. */
  outbound: Pick<Outbound, "fetch">;
  /** The way to all other servers. */
  policed: Pick<PolicedOutbounds, "within">;
  /** Waits until the sandbox runs. Throws SandboxFailed, SandboxNotFound. */
  sandbox(): Promise<Sandbox>;
  workingDir: string;
  /** Current secrets of the sandbox. */
  secrets(): Promise<readonly SandboxSecret[]>;
  /** Network policy of the sandbox. */
  policy(): Promise<NetworkPolicy>;
  /** Goes along with requests to remote servers of the user's configuration. */
  trace?: TraceContext | undefined;
  /** Receives every secret that a configuration gives to a server. */
  onSecret?(value: string): void;
}

/** Opens sessions: commands run in the sandbox, remote servers are reached from here. */
export function sessionOpener(around: McpDeps): OpenSession {
  return (spec, onChange, signal) =>
    (spec.server.command ? openStdio : openRemoteFrom)(spec, around, { onChange, signal });
}

type Options = { onChange: () => void; signal: AbortSignal };

async function openStdio(spec: ServerSpec, around: McpDeps, options: Options): Promise<McpSession> {
  const sandbox = await around.sandbox();
  const secrets = await around.secrets();
  options.signal.throwIfAborted();
  const { transport, hidden } = await startServer(spec, {
    sandbox,
    workingDir: around.workingDir,
    secrets,
  });
  for (const value of hidden) around.onSecret?.(value);
  return McpSession.open(new GuardedTransport(transport), { hidden, ...options });
}

async function openRemoteFrom(spec: ServerSpec, around: McpDeps, options: Options): Promise<McpSession> {
  const [policy, secrets] = await Promise.all([around.policy(), around.secrets()]);
  options.signal.throwIfAborted();
  const address = resolveAddress(spec, { secrets, policy });
  for (const value of address.hidden) around.onSecret?.(value);
  if (spec.from !== "user")
    return openRemote(spec, address, { outbound: around.policed.within(policy), ...options });
  const headers = { ...around.trace, ...address.headers };
  return openRemote(spec, { ...address, headers }, { outbound: around.outbound, ...options });
}

/** Connects over the configured protocol, else the current one, then SSE. Throws as `open` does. */
export async function openRemote(
  { server }: ServerSpec,
  address: RemoteAddress,
  { outbound, ...options }: Options & Pick<McpDeps, "outbound">,
): Promise<McpSession> {
  const open = async (sse: boolean) => {
    const transport = await remoteTransport(address, { sse, outbound, silenceMs: getMaxSilence(server) });
    return McpSession.open(transport, { hidden: address.hidden, ...options });
  };
  const { transport } = server;
  if (transport === "sse" || (!transport && address.url.pathname.endsWith("/sse"))) return open(true);
  try {
    return await open(false);
  } catch (error) {
    // Without a configured protocol, an old server may only speak SSE.
    if (transport || !isUnknownThere(error)) throw error;
    return open(true).catch((second) => {
      options.signal.throwIfAborted();
      // An SSE server may check credentials only on its endpoint.
      throw refusedStatus(second) === undefined
        ? new PlatformError("McpServerFailed", { message: errorText(error) }, { cause: second })
        : second;
    });
  }
}

function isUnknownThere(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
  return code === 400 || code === 404 || code === 405;
}
