import type { BlobPlace } from "@sandpiper/core/blobs/place";
import type { LogLevel } from "@sandpiper/core/log/log";
import type { DockerHost } from "@sandpiper/sandbox/drivers/docker/engine";
import type { SandboxKind } from "@sandpiper/sandbox/drivers/kubernetes/agent-sandbox";
import type { SandboxQuotas } from "@sandpiper/sandbox/service/quotas";
import type { PackageMirrors } from "@sandpiper/sandbox/specs/package-sources/mirrors";
import type { DatabaseSource } from "./database-source.ts";
import type { StorageQuotas } from "./storage-quotas.ts";
import type { VaultKeySource } from "./vault-key-source.ts";

/**
 * How the kubernetes driver uses a cluster; an undefined field has the default that `variables.ts`
 * describes.
 */
export interface KubernetesConfig {
  /** Absolute path of the kubeconfig. */
  kubeconfig: string | undefined;
  namespace: string | undefined;
  installation: string | undefined;
  runtimeClass: string | undefined;
  storageClass: string | undefined;
  /** Names of Secrets in the namespace with which nodes fetch images. */
  pullSecrets: string[];
  /** Number of pods that wait for each kind of sandbox. */
  warmPods: number;
  userNamespaces: boolean;
  kind: SandboxKind;
}

/** Configuration of a server, read from the environment once (see `readConfig`). */
export interface Config {
  host: string;
  port: number;
  /** Absolute path of the data folder. */
  dataDir: string;
  /** Source of the vault's key; undefined: the file `vault.key` of the data folder. */
  vaultKey: VaultKeySource | undefined;
  /** PostgreSQL database of the store; undefined: SQLite in the data folder. */
  database: DatabaseSource | undefined;
  /** How the servers of one PostgreSQL database reach and replace each other. */
  node: {
    /** Address at which other nodes reach this one; undefined: it is made from host and port. */
    url: string | undefined;
    /** How long no node of a place must be alive before other nodes claim its sandboxes, ms. */
    lostAfterMs: number;
  };
  /** Place of the copies of sandboxes' files; undefined: the server keeps no copies. */
  blobs: BlobPlace | undefined;
  /** SANDPIPER_API_KEY; undefined: a key is created at the first start. */
  apiKey: string | undefined;
  /** Public URL without a trailing slash; undefined: made from host and port. */
  publicUrl: string | undefined;
  driver: "oci" | "docker" | "kubernetes";
  /**
   * Absolute path of the specs file; undefined: `specs.json` of the data folder where it exists.
   */
  specsFile: string | undefined;
  /**
   * Absolute path of registry credentials in the format of Docker's config.json; undefined: the
   * tools' default.
   */
  registryAuth: string | undefined;
  /** Registries of users' images; undefined: the default of the driver. */
  registries: string[] | undefined;
  /** Engine of the docker driver; undefined: DOCKER_HOST, else the usual socket. */
  dockerHost: DockerHost | undefined;
  /** Settings of the kubernetes driver. */
  kubernetes: KubernetesConfig;
  /** OCI runtime by name or path; undefined: crun, else runc. */
  runtime: string | undefined;
  /** Largest accepted request body, bytes. */
  bodyLimit: number;
  logLevel: LogLevel;
  /** Default limits of specs. */
  limits: { memoryBytes: number; pids: number; cpus: number; diskBytes: number };
  /** Files, snapshots and sandboxes that are kept. */
  sandboxQuotas: SandboxQuotas;
  /** Bytes of an unpacked image; 0: no limit. */
  maxImageBytes: number;
  /** What users may store in conversations. */
  storageQuotas: StorageQuotas;
  /** Time without use after which a sandbox is paused, ms; 0: never. */
  idlePauseMs: number;
  /** Time after the pause until a sandbox is hibernated, ms; 0: never. */
  hibernateAfterMs: number;
  /** Time without use after which a sandbox is deleted, ms; 0: never. */
  deleteAfterMs: number;
  /** Maximum running sandboxes of a user; 0: no limit. */
  maxSandboxes: number;
  /** Maximum concurrent runs of a user, others wait; 0: no limit. */
  maxRuns: number;
  /** Maximum cost of a user's model calls per day (UTC), USD; 0: no limit. */
  dailyBudget: number;
  /** Requests per second of one key, or of one address without a key; 0: no limit. */
  maxRequests: number;
  /** Address ranges of proxies whose `X-Forwarded-*` headers are trusted. */
  trustedProxies: string[];
  /** CIDR ranges that the server's own requests may reach, besides public addresses. */
  outboundPrivate: string[];
  /** Mirrors that sandboxes use for packages. */
  packageMirrors: PackageMirrors;
  /** Absolute path of the folder with the skills of every user; undefined: none. */
  skillsDir: string | undefined;
  /**
   * Webhook for the events of all conversations, with the signing key or session key; undefined:
   * none.
   */
  webhook: { url: string; secret: string | null; format: WebhookFormat } | undefined;
  /** Origins of browsers, besides localhost. */
  corsOrigins: string[];
}

/**
 * Format of webhook deliveries: signed batches, or agent-server reports (agent-server.md section
 * 10).
 */
export type WebhookFormat = "signed" | "agent-server";
