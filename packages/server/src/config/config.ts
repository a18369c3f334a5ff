/** Configuration of a server, read from the environment once (see `readConfig`). */
export interface Config {
  host: string;
  port: number;
  /** Absolute path of the data folder. */
  dataDir: string;
  /** SANDPIPER_API_KEY, or undefined: then one is made at the first start. */
  apiKey: string | undefined;
  /** Address under which clients reach the server, without a trailing slash; undefined: made from host and port. */
  publicUrl: string | undefined;
  /** OCI runtime by name or path; undefined: crun, else runc. */
  runtime: string | undefined;
  /** Largest accepted request body, bytes. */
  bodyLimit: number;
  logLevel: "fatal" | "error" | "warn" | "info" | "debug" | "silent";
  /** Default limits of the `host` spec. */
  limits: { memoryBytes: number; pids: number; cpus: number; diskBytes: number };
  /** Origins beside localhost that browsers may call from. */
  corsOrigins: string[];
}
