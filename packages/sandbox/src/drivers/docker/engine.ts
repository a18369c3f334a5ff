import { Agent } from "node:http";
import { hostname, release } from "node:os";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import Docker from "dockerode";
import type { DockerHost } from "./docker-host.ts";

/** What the engine answers to a request that it does not fulfil, by status. */
export type Answers<T> = Record<number, (message: string) => T>;

/** Time within which the engine answers an ordinary request, ms. */
const defaultPatienceMs = 30_000;
/** For what takes time by the size of a sandbox's files, ms. */
export const longPatienceMs = 600_000;

/** The engine took a request and did not answer it in time. */
export class EngineSilent extends PlatformError {
  constructor(message: string) {
    super("SandboxFailed", message);
  }
}

/** A container engine behind its API (Docker, or Podman's Docker-compatible one). */
export class Engine {
  readonly docker: Docker;
  /** Where it is reached, for messages. */
  readonly place: string;
  readonly #patienceMs: number;

  constructor(host?: DockerHost, patienceMs = defaultPatienceMs) {
    // A connection a request: a kept one may have been closed by an engine that was restarted meanwhile.
    const agent =
      host && "protocol" in host && host.protocol === "https"
        ? {}
        : { agent: new Agent({ keepAlive: false }) };
    // What the environment says about another engine must not be mixed in.
    const address =
      host &&
      ("socketPath" in host
        ? { socketPath: host.socketPath, host: undefined }
        : { ...host, socketPath: undefined });
    this.docker = new Docker({ ...address, ...agent } as Docker.DockerOptions);
    this.place =
      host === undefined
        ? (process.env.DOCKER_HOST ?? "/var/run/docker.sock")
        : "socketPath" in host
          ? host.socketPath
          : `${host.host}:${host.port}`;
    this.#patienceMs = patienceMs;
  }

  /**
   * Makes a request. `what` follows "could not". `answers` turn what the engine refuses into a result or an error of the caller's.
   * Throws SandboxFailed when the engine cannot be reached, does not answer in time, or refuses.
   */
  async ask<T, A = never>(
    what: string,
    work: (signal: AbortSignal) => Promise<T>,
    answers: Answers<A> = {},
    patienceMs = this.#patienceMs,
  ): Promise<T | A> {
    const late = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const seconds = Math.round(patienceMs / 100) / 10;
        reject(new EngineSilent(`The container engine at ${this.place} did not answer within ${seconds} s.`));
        late.abort();
      }, patienceMs);
    });
    try {
      return await Promise.race([work(late.signal), timeout]);
    } catch (error) {
      if (error instanceof PlatformError) throw error;
      const { statusCode } = error as { statusCode?: number };
      const message = engineMessage(error);
      if (statusCode !== undefined && answers[statusCode]) return answers[statusCode](message);
      if (statusCode !== undefined)
        throw new PlatformError("SandboxFailed", `The container engine could not ${what}: ${message}.`, {
          cause: error,
        });
      throw this.#unreachable(error);
    } finally {
      clearTimeout(timer);
    }
  }

  async info(): Promise<EngineInfo> {
    return await this.ask(
      "tell about itself",
      () => this.docker.info(),
      {},
      Math.min(this.#patienceMs, 10_000),
    );
  }

  #unreachable(error: unknown): PlatformError {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === "EACCES" ? "this user may not use it" : (code ?? errorText(error));
    return new PlatformError(
      "SandboxFailed",
      `The container engine at ${this.place} cannot be reached (${reason}): start it, or set SANDPIPER_DOCKER_HOST to its address.`,
      { cause: error },
    );
  }
}

export interface EngineInfo {
  Name: string;
  KernelVersion: string;
  SecurityOptions?: string[] | null;
  Driver: string;
  DriverStatus?: [string, string][] | null;
}

/**
 * True when the engine shares this machine's kernel and name, so that its bind mounts and process ids mean the same here. One in a container
 * or a virtual machine does not.
 */
export function isOnThisMachine({ Name, KernelVersion }: EngineInfo): boolean {
  return Name === hostname() && KernelVersion === release();
}

/** The engine's own words, without the client's frame and without a full stop. */
export function engineMessage(error: unknown): string {
  const { json } = error as { json?: unknown };
  const text =
    typeof json === "object" && json !== null && "message" in json
      ? String(json.message)
      : errorText(error).replace(/^\(HTTP code \d+\) [^-]* - /, "");
  return text.trim().replace(/\.$/, "");
}
