import { Agent } from "node:http";
import { hostname, release } from "node:os";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import Docker from "dockerode";

/** Address of a Docker or Podman engine. */
export type DockerHost = { socketPath: string } | { protocol: "http" | "https"; host: string; port: number };

/** Handlers of the engine's refusals by HTTP status. */
export type RefusalHandlers<T> = Record<number, (message: string) => T>;

/** Timeout for an ordinary request, ms. */
const defaultTimeoutMs = 30_000;
/** Timeout for requests whose time depends on the size of a sandbox's files, ms. */
export const longTimeoutMs = 600_000;
const infoTimeoutMs = 10_000;

/** The engine accepted a request and did not answer in time. */
export class EngineTimeout extends PlatformError<"EngineTimeout"> {
  constructor(address: string, timeoutMs: number) {
    super("EngineTimeout", { address, seconds: Math.round(timeoutMs / 100) / 10 });
  }
}

/** A container engine behind its API (Docker, or Podman's Docker-compatible one). */
export class Engine {
  readonly docker: Docker;
  /** For error messages. */
  readonly address: string;
  readonly #timeoutMs: number;

  constructor(host?: DockerHost, timeoutMs = defaultTimeoutMs) {
    // No kept connections: a restarted engine has closed them.
    const agent =
      host && "protocol" in host && host.protocol === "https"
        ? {}
        : { agent: new Agent({ keepAlive: false }) };
    // The undefined field keeps dockerode from adding DOCKER_HOST.
    const options =
      host &&
      ("socketPath" in host
        ? { socketPath: host.socketPath, host: undefined }
        : { ...host, socketPath: undefined });
    this.docker = new Docker({ ...options, ...agent } as Docker.DockerOptions);
    this.address =
      host === undefined
        ? (process.env.DOCKER_HOST ?? "/var/run/docker.sock")
        : "socketPath" in host
          ? host.socketPath
          : `${host.host}:${host.port}`;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Makes a request. `action` follows "could not" in messages; `handlers` turn refusals into
   * results or errors. Throws SandboxFailed when the engine is unreachable, times out, or refuses.
   */
  async request<T, A = never>(
    action: string,
    work: (signal: AbortSignal) => Promise<T>,
    handlers: RefusalHandlers<A> = {},
    timeoutMs = this.#timeoutMs,
  ): Promise<T | A> {
    const abort = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new EngineTimeout(this.address, timeoutMs));
        abort.abort();
      }, timeoutMs);
    });
    try {
      return await Promise.race([work(abort.signal), timeout]);
    } catch (cause) {
      if (cause instanceof PlatformError) throw cause;
      const { statusCode } = cause as { statusCode?: number };
      if (statusCode === undefined) throw this.#unreachable(cause);
      const reason = getEngineMessage(cause);
      const handle = handlers[statusCode];
      if (handle) return handle(reason);
      throw new PlatformError("EngineRefused", { action, reason }, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  async info(): Promise<EngineInfo> {
    const timeoutMs = Math.min(this.#timeoutMs, infoTimeoutMs);
    return await this.request("describe itself", () => this.docker.info(), {}, timeoutMs);
  }

  #unreachable(cause: unknown): PlatformError {
    const { code } = cause as NodeJS.ErrnoException;
    const reason = code === "EACCES" ? "this user may not use it" : (code ?? errorText(cause));
    return new PlatformError("EngineUnreachable", { address: this.address, reason }, { cause });
  }
}

export interface EngineInfo {
  Name: string;
  KernelVersion: string;
  SecurityOptions?: string[] | null;
  /** How it makes control groups: `cgroupfs`, `systemd` or `none`. */
  CgroupDriver?: string | undefined;
  Driver: string;
  DriverStatus?: [string, string][] | null;
}

/**
 * True when the engine shares this machine's kernel and host name, so that paths and process ids
 * mean the same here; false for an engine in a container or virtual machine.
 */
export function isOnThisMachine({ Name, KernelVersion }: EngineInfo): boolean {
  return Name === hostname() && KernelVersion === release();
}

/** The engine's own message without the client's prefix and the full stop. */
export function getEngineMessage(error: unknown): string {
  const { json } = error as { json?: unknown };
  const text =
    typeof json === "object" && json !== null && "message" in json
      ? String(json.message)
      : errorText(error).replace(/^\(HTTP code \d+\) [^-]* - /, "");
  return text.trim().replace(/\.$/, "");
}
