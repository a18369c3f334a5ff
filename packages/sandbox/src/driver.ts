import type { Duplex, Readable, Writable } from "node:stream";

/**
 * The one interface of a sandbox engine. Nothing above it knows which engine runs.
 * A driver keeps no state that it cannot find again after a kill -9: `list` asks the engine.
 */
export interface SandboxDriver {
  readonly name: string;
  /** argv words before a script that run a POSIX shell with file tools in every sandbox; known after `open`. Undefined: `sh` of the sandbox. */
  readonly shell?: string[] | undefined;
  /** Checks once that the engine works here, and makes it ready. Throws PlatformError SandboxFailed with one sentence on what to install or change. */
  open(): Promise<void>;
  /**
   * Makes the root filesystem of a spec ready (fetches an image, unpacks it, …) and gives the spec with everything that the root decides
   * filled in. Idempotent and quick when all is there; calls for the same root share the work.
   * Throws SandboxSpecUnusable with one sentence on what is wrong (bad reference, unreachable registry, wrong credentials, …); nothing half-made is left.
   */
  prepare(spec: SandboxSpec, options?: PrepareOptions): Promise<PreparedSpec>;
  /** Starts a new sandbox, or a stopped one on its files, and resolves when commands can be run in it. A half-made one is removed before it throws SandboxFailed. */
  start(request: StartRequest): Promise<void>;
  /** Runs a command. Resolves once it is started; a missing binary shows as exit code 127 or 126, not as a throw. */
  exec(id: string, command: ExecRequest): Promise<SandboxProcess>;
  /** Freezes every process. Pausing a paused sandbox is fine. */
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** Ends every process, in order where that goes in a second or so, from any state. The files stay and cost no process and no mount. Idempotent. */
  stop(id: string): Promise<void>;
  /** Kills and removes everything that belongs to the sandbox. Removing an unknown one is fine. Snapshots of it stay. */
  remove(id: string): Promise<void>;
  /** Every sandbox of this installation that the engine knows. */
  list(): Promise<DriverSandbox[]>;
  /**
   * Keeps the files of a sandbox as they are now, under a name, in a time that does not depend on their size. The sandbox is stopped by it
   * where the engine cannot do it otherwise; `start` brings it back on its files.
   */
  snapshot(id: string, snapshotId: string): Promise<void>;
  /** Removing an unknown snapshot is fine; sandboxes that were started from it keep their files. */
  removeSnapshot(snapshotId: string): Promise<void>;
  snapshots(): Promise<string[]>;
  /** Connects to a TCP port on the loopback address inside a running sandbox. Throws SandboxNotRunning, or PortUnreachable when nothing listens there. */
  connect(id: string, port: number): Promise<Duplex>;
  /**
   * Listens on a loopback TCP port inside a running sandbox; connections from inside arrive here. It ends with the sandbox's processes or by
   * `close`. This is a sandbox's only way out.
   */
  listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }>;
  /** What a sandbox uses now. Throws SandboxNotFound. */
  usage(id: string): Promise<SandboxUsage>;
  /** Brings in order what a crash may have left: removes what belongs to no sandbox (`known` ids) and no snapshot. Called at start and from time to time. */
  reap(known: { sandboxes: Set<string>; snapshots: Set<string> }): Promise<void>;
  /** Releases what the driver itself holds. Sandboxes go on running. */
  close(): Promise<void>;
}

export interface PrepareOptions {
  /** Called with one line a time about long work, for people. */
  onProgress?: (text: string) => void;
  signal?: AbortSignal;
}

export interface DriverSandbox {
  id: string;
  state: "running" | "paused" | "stopped";
}

export interface SandboxUsage {
  memoryBytes: number;
  /** Size of the writable layer. */
  diskBytes: number;
  /** CPU time since the processes began, ms. */
  cpuMs: number;
  pids: number;
}

export interface StartRequest {
  /** Name of the sandbox: `[a-z0-9-]{1,63}`; also its host name. */
  id: string;
  spec: PreparedSpec;
  /** A new sandbox begins with the files of this snapshot. */
  snapshot?: string;
  /** Files of root, readable by all, that the sandbox has beside those of its root; written at every start. */
  files?: SandboxFile[];
}

export interface SandboxFile {
  /** Absolute path inside. */
  path: string;
  content: string;
}

/** Where the root filesystem comes from. `host` is `/usr` of this machine read-only under a generated minimal root. */
export type SandboxRoot =
  | { kind: "host" }
  /** An OCI image: `docker.io/library/debian:12`, `localhost:5000/app@sha256:…`. */
  | { kind: "image"; reference: string }
  /** A folder with a root filesystem; it is only read. */
  | { kind: "folder"; path: string };

/** A template for sandboxes, as it is configured. */
export interface SandboxSpec {
  id: string;
  root: SandboxRoot;
  /** Command of the first process, or null for an init that only reaps. */
  command: string[] | null;
  env: Record<string, string>;
  workingDir: string;
  /** A text (`name`, `uid` or `uid:gid`) is looked up in the root. Null: the user that the image names, else root; for `host` its own user. */
  user: SandboxUser | string | null;
  limits: SandboxLimits;
  network: NetworkPolicy;
}

/** A spec whose root is ready: an image is pinned by its digest, its environment is merged into `env`, its user is looked up. */
export interface PreparedSpec extends SandboxSpec {
  user: SandboxUser;
}

export interface SandboxUser {
  name: string;
  uid: number;
  gid: number;
  home: string;
}

export interface SandboxLimits {
  memoryBytes: number;
  pids: number;
  /** CPUs, may be a fraction. */
  cpus: number;
  /** Size of the writable layer. */
  diskBytes: number;
}

/** What a sandbox may reach, by the egress proxy alone. */
export interface NetworkPolicy {
  mode: "none" | "allowlist" | "open";
  /** With `allowlist`: what is allowed. Without meaning otherwise. */
  allow: AllowRule[];
  /** Secrets that the proxy puts in the place of a placeholder. */
  credentials: CredentialRule[];
  /** Address ranges (CIDR) that may be reached although they are private, such as that of an internal registry. */
  private?: string[];
  /** The user's secrets go out too: the sandbox was started with the certificates that this takes. */
  userSecrets?: boolean;
}

export interface AllowRule {
  /** `example.com`, or `*.example.com` for every name below it. */
  host: string;
  ports: number[];
  /** HTTP methods, upper case; null allows all. A rule with methods needs the proxy to see into TLS. */
  methods: string[] | null;
}

/** The sandbox sees a placeholder in the environment variable `name`; on the way to `hosts` the proxy replaces it in request headers. */
export interface CredentialRule {
  name: string;
  hosts: string[];
  /** Name of the server's environment variable that holds the secret. */
  fromEnv: string;
}

export interface ExecRequest {
  argv: string[];
  /** Default: the spec's working directory. */
  cwd?: string;
  /** Added to the spec's environment. */
  env?: Record<string, string>;
  /** Runs on a pseudo-terminal of this size; stdout then carries everything. */
  tty?: { cols: number; rows: number };
}

export interface SandboxProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Empty with `tty`. */
  readonly stderr: Readable;
  /** Resolves when the process ended and its output is read out. Never rejects. */
  readonly exit: Promise<ExitStatus>;
  /** Sends a signal (default SIGKILL) to the process. A process that ended is fine. */
  kill(signal?: NodeJS.Signals): void;
  /** Only with `tty`. */
  resize(cols: number, rows: number): void;
}

/** `code` is null when a signal ended the process. */
export interface ExitStatus {
  code: number | null;
  signal: string | null;
}
