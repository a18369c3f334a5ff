import type { Duplex } from "node:stream";
import type { KnownIds, NetworkPolicy, SandboxFile } from "../driver.ts";
import type { SandboxSecret } from "./sandbox-secret.ts";

/** A sandbox from the view of the egress proxy. */
export interface ProxiedSandbox {
  id: string;
  policy: NetworkPolicy;
  /** Authenticates the sandbox; from `egressToken`. */
  token: string;
  /** The owner of the secrets that it may use. */
  userId?: string;
}

/** Looked up at every request, so that changes take effect at once. */
export interface SecretLookup {
  forSandbox(userId: string, sandboxId: string): Promise<readonly SandboxSecret[]>;
  /**
   * Why a sandbox gets no secret now, neither of its user nor of its policy; undefined when it
   * does.
   */
  withheld(userId: string, sandboxId: string): Promise<string | undefined>;
}

/** `driver.listen` for one sandbox. */
export type Listen = (port: number, accept: (connection: Duplex) => void) => Promise<{ close(): void }>;

/** A request or tunnel in the log of a sandbox. */
export interface Decision {
  /** Grows by one with every decision of a sandbox. */
  seq: number;
  /** Start, ms since the epoch. */
  at: number;
  /** HTTP method; CONNECT for a tunnel. */
  method: string;
  host: string;
  port: number;
  /** The connected address; null without a connection. */
  address: string | null;
  decision: "allowed" | "refused";
  /** Sentence about a refusal or failure, else null. */
  reason: string | null;
  bytesUp: number;
  bytesDown: number;
  durationMs: number;
}

/** A request that was refused, or whose connection failed. */
export interface NetworkProblem {
  host: string;
  /** A rule of the network forbids it; false: the connection failed. */
  refused: boolean;
  /** What was asked for, why it failed, and which rule would allow it. */
  sentence: string;
}

/** The only network access of a server's sandboxes. */
export interface Egress {
  /**
   * Environment variables for the proxy, and the placeholders of credentials and secrets; empty
   * with mode `none`. Variables of the spec take precedence. Values of secrets are never among
   * them: what a sandbox starts with, its later programs can read.
   */
  environment(sandbox: ProxiedSandbox): Promise<Record<string, string>>;
  /**
   * What the environment of a start lacks: the placeholders of secrets that were added later, and
   * the values of plain ones, which a sandbox without a network has, too.
   */
  secretEnvironment(sandbox: ProxiedSandbox): Promise<Record<string, string>>;
  /** The policy for a start: with access for the user's secrets, also for later ones. */
  startPolicy(sandbox: ProxiedSandbox): NetworkPolicy;
  /**
   * Files for `StartRequest.files`: configuration of package managers, and certificates if the
   * proxy must terminate TLS.
   */
  files(sandbox: Pick<ProxiedSandbox, "policy">): SandboxFile[];
  /** Starts the access of its policy; ends an earlier one. Throws what `listen` throws. */
  attach(sandbox: ProxiedSandbox, listen: Listen): Promise<void>;
  /** Cuts all connections and invalidates the token. Keeps the log. Ignores an unknown id. */
  detach(id: string): void;
  /** Detaches, and removes the log. */
  forget(id: string): Promise<void>;
  /** Removes the logs of unknown sandboxes. */
  reap(known: Pick<KnownIds, "sandboxes" | "refresh">): Promise<void>;
  /** Collects each problem of a sandbox once, until the returned function is called. */
  watchProblems(id: string): () => NetworkProblem[];
  /** When a call last found new traffic, ms since the epoch. */
  lastTraffic(id: string): number | undefined;
  /** Decisions before the `seq` `before`, newest first. Unknown ids have none. */
  decisions(id: string, page: { limit: number; before?: number | undefined }): Promise<Decision[]>;
  /** Detaches all and flushes the logs. */
  close(): Promise<void>;
}
