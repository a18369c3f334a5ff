import { errorText, PlatformError } from "../../errors.ts";
import type { Outbound } from "../../outbound/api.ts";
import type { NetworkPolicy } from "../../sandboxes/driver.ts";
import type { Sandbox } from "../../sandboxes/sandbox.ts";
import type { SandboxSecret } from "../../users/api.ts";
import { remoteAddress } from "./addresses.ts";
import { remoteTransport } from "./remote-transport.ts";
import { startServer } from "./sandbox-server.ts";
import type { OpenSession } from "./server-link.ts";
import type { ServerSpec } from "./server-spec.ts";
import { Session } from "./session.ts";
import { GuardedTransport } from "./transport.ts";

/** Where the servers of a conversation are reached from. */
export interface McpSurroundings {
  outbound: Pick<Outbound, "fetch">;
  /** Waits for the sandbox to run. Throws SandboxFailed, SandboxNotFound. */
  sandbox(): Promise<Sandbox>;
  workingDir: string;
  /** Those that apply in the sandbox, as of now. */
  secrets(): readonly SandboxSecret[];
  /** What the sandbox may reach. */
  policy(): NetworkPolicy;
  /** Is told every secret that a configuration gives to a server. */
  onSecret?(value: string): void;
}

/** Opens connections to servers: to commands inside of the sandbox, to others from here. */
export function sessionOpener(around: McpSurroundings): OpenSession {
  return (spec, onChange, signal) => (spec.server.command ? openStdio : openRemote)(spec, around, { onChange, signal });
}

type Options = { onChange: () => void; signal: AbortSignal };

async function openStdio(spec: ServerSpec, around: McpSurroundings, options: Options): Promise<Session> {
  const sandbox = await around.sandbox();
  options.signal.throwIfAborted();
  const { transport, hidden } = await startServer(spec, { sandbox, workingDir: around.workingDir, secrets: around.secrets() });
  for (const value of hidden) around.onSecret?.(value);
  return Session.open(new GuardedTransport(transport), { hidden, ...options });
}

async function openRemote(spec: ServerSpec, around: McpSurroundings, options: Options): Promise<Session> {
  const address = remoteAddress(spec, { secrets: around.secrets(), policy: around.policy() });
  const { hidden, url } = address;
  for (const value of hidden) around.onSecret?.(value);
  const open = async (sse: boolean) => {
    const transport = await remoteTransport(address, { sse, outbound: around.outbound });
    return Session.open(transport, { hidden, ...options });
  };
  const { transport } = spec.server;
  if (transport === "sse" || (!transport && url.pathname.endsWith("/sse"))) return open(true);
  try {
    return await open(false);
  } catch (error) {
    // Where nobody says which protocol it is, a server that does not know the newer one may speak the older.
    if (transport || !isUnknownThere(error)) throw error;
    return open(true).catch((second) => {
      options.signal.throwIfAborted();
      throw new PlatformError("McpFailed", errorText(error), { cause: second });
    });
  }
}

function isUnknownThere(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
  return code === 404 || code === 405;
}
