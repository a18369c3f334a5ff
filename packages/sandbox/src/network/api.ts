import type { Duplex } from "node:stream";
import type { NetworkPolicy, SandboxFile } from "../driver.ts";
import type { SandboxSecret } from "./sandbox-secret.ts";

/** A sandbox as the egress proxy knows it. */
export interface ProxiedSandbox {
  id: string;
  policy: NetworkPolicy;
  /** What the sandbox shows to the proxy; `egressToken` of `environment.ts` derives it. */
  token: string;
  /** Whose secrets go out for it; none without. */
  userId?: string;
}

/** Where secrets of users are looked up: at every request, so that a new or removed one counts at once. */
export interface SecretSource {
  forSandbox(userId: string, sandboxId: string): readonly SandboxSecret[];
}

/** `driver.listen` for one sandbox. */
export type Listen = (port: number, accept: (connection: Duplex) => void) => Promise<{ close(): void }>;

/** One request or tunnel, as the log of a sandbox keeps it. */
export interface Decision {
  /** Grows by one with every decision of a sandbox. */
  seq: number;
  /** Begin, ms since the epoch. */
  at: number;
  /** HTTP method; CONNECT for a tunnel. */
  method: string;
  host: string;
  port: number;
  /** Address that was connected to; null where it did not come to that. */
  address: string | null;
  decision: "allowed" | "refused";
  /** Why it was refused or failed, in one sentence; null where all went well. */
  reason: string | null;
  bytesUp: number;
  bytesDown: number;
  durationMs: number;
}

/** The only way out of the sandboxes of a server. */
export interface Egress {
  /**
   * Environment variables that lead programs to the proxy, and the placeholders of the policy's credentials and of the user's secrets. Empty
   * with mode `none`. They go under those of the spec.
   */
  environment(sandbox: ProxiedSandbox): Record<string, string>;
  /** Of these the part that a running sandbox may lack, because its user's secrets have come later. */
  secretEnvironment(sandbox: ProxiedSandbox): Record<string, string>;
  /** The policy with which a sandbox is to start: it lets the user's secrets out where there are any. */
  startPolicy(sandbox: ProxiedSandbox): NetworkPolicy;
  /** Certificates that the variables name, for `StartRequest.files`; empty unless the policy needs the proxy to see into TLS. */
  files(sandbox: Pick<ProxiedSandbox, "policy">): SandboxFile[];
  /**
   * Lets a running sandbox out as its policy says, from now on. An earlier attachment of the same id ends. With mode `none` nothing listens.
   * Throws what `listen` throws.
   */
  attach(sandbox: ProxiedSandbox, listen: Listen): Promise<void>;
  /** Cuts every connection and refuses the token from now on. The log stays. Detaching an unknown sandbox is fine. */
  detach(id: string): void;
  /** Detaches, and removes the log. */
  forget(id: string): Promise<void>;
  /** Removes the logs of all sandboxes but these. */
  reap(known: ReadonlySet<string>): Promise<void>;
  /** When bytes last passed, as far as calls of this method can tell, ms since the epoch; undefined for a sandbox that is not attached or has been silent. */
  lastTraffic(id: string): number | undefined;
  /** Decisions, the newest first, older than `before` (a `seq`) where that is given. Unknown ids have none. */
  decisions(id: string, page: { limit: number; before?: number | undefined }): Promise<Decision[]>;
  /** Detaches all, and writes what is left of the logs. */
  close(): Promise<void>;
}
