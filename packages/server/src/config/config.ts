import type { LogLevel } from "@sandpiper/core/log/log";
import type { DockerHost } from "@sandpiper/sandbox/drivers/docker/engine";

/** Configuration of a server, read from the environment once (see `readConfig`). */
export interface Config {
  host: string;
  port: number;
  /** Absolute path of the data folder. */
  dataDir: string;
  /** SANDPIPER_API_KEY, or undefined: then one is made at the first start. */
  apiKey: string | undefined;
  /**
   * Address under which clients reach the server, without a trailing slash; undefined: made from
   * host and port.
   */
  publicUrl: string | undefined;
  driver: "oci" | "docker";
  /**
   * Absolute path of the specs file; undefined: `specs.json` of the data folder where it exists.
   */
  specsFile: string | undefined;
  /**
   * Absolute path of a file with registry credentials in the format of Docker's config.json;
   * undefined: what the tools find themselves.
   */
  registryAuth: string | undefined;
  /**
   * Where the docker driver reaches its engine; undefined: by DOCKER_HOST, else the usual socket.
   */
  dockerHost: DockerHost | undefined;
  /** OCI runtime by name or path; undefined: crun, else runc. */
  runtime: string | undefined;
  /** Largest accepted request body, bytes. */
  bodyLimit: number;
  logLevel: LogLevel;
  /** Limits of specs that set none of their own. */
  limits: { memoryBytes: number; pids: number; cpus: number; diskBytes: number };
  /** Time without use after which a sandbox is paused, ms; 0: never. */
  idlePauseMs: number;
  /** Time from the pause until a paused sandbox is hibernated, ms; 0: never. */
  hibernateAfterMs: number;
  /** Time without use after which a sandbox is deleted, ms; 0: never. */
  deleteAfterMs: number;
  /** Running sandboxes of a user; 0: no limit. */
  maxSandboxes: number;
  /** Runs of a user at a time; further ones wait. 0: no limit. */
  maxRuns: number;
  /** What a user's model calls may cost a day (UTC), USD; 0: no limit. */
  dailyBudget: number;
  /** Requests per second of one key, or of one address without a key; 0: no limit. */
  maxRequests: number;
  /** Addresses and ranges of proxies whose `X-Forwarded-*` headers are believed. */
  trustedProxies: string[];
  /**
   * Address ranges in CIDR notation that the server's own requests may go to, beside public
   * addresses.
   */
  outboundPrivate: string[];
  /** Absolute path of the folder with the skills of every user; undefined: none. */
  skillsDir: string | undefined;
  /**
   * Where the events of every conversation go, and the key of the signature or the session key;
   * undefined: nowhere.
   */
  webhook: { url: string; secret: string | null; format: WebhookFormat } | undefined;
  /** Origins beside localhost that browsers may call from. */
  corsOrigins: string[];
}

/**
 * How events go out: as signed batches, or as an agent server reports them (agent-server.md section
 * 10).
 */
export type WebhookFormat = "signed" | "agent-server";
