import { type CallOptions, path } from "../connection.ts";
import { RequestError } from "../errors.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type {
  Behaviour,
  FindBehaviourRequest,
  NetworkDecision,
  PreviewLink,
  SandboxInfo,
  SandboxNetwork,
  SandboxSecretNames,
  SandboxStartRequest,
  Success,
} from "../types.ts";
import { poll } from "../wait.ts";
import { first, Group } from "./group.ts";

const base = "/api/v1/sandboxes";

/** What a sandbox is made of; by default the spec of the settings. */
export type NewSandbox = SandboxStartRequest & { sandbox_spec_id?: string; snapshot_id?: string };

/** Sandboxes: lifecycle, network and previews. */
export class Sandboxes extends Group {
  /** Begins to start a sandbox; the answer is its first state. */
  create(
    { sandbox_spec_id, snapshot_id, ...json }: NewSandbox = {},
    options?: CallOptions,
  ): Promise<SandboxInfo> {
    return this.connection.post(base, json, { ...options, query: { sandbox_spec_id, snapshot_id } });
  }

  /** Starts a sandbox and resolves when it runs. Deletes it when that fails or is ended. */
  async start(request: NewSandbox = {}, { signal }: CallOptions = {}): Promise<SandboxInfo> {
    const sandbox = await this.create(request);
    try {
      return await this.#untilRunning(sandbox, signal);
    } catch (error) {
      await this.delete(sandbox.id).catch(() => {});
      throw error;
    }
  }

  list(query?: PageQuery, options?: CallOptions): Promise<PageOf<SandboxInfo>> {
    return this.connection.get(`${base}/search`, { ...query }, options);
  }

  /** A sandbox; undefined when there is none with the id. */
  async get(id: string, options?: CallOptions): Promise<SandboxInfo | undefined> {
    return first(await this.connection.get<(SandboxInfo | null)[]>(base, { id: [id] }, options));
  }

  /** Freezes all processes. */
  pause(id: string, options?: CallOptions): Promise<Success> {
    return this.connection.post(path`/api/v1/sandboxes/${id}/pause`, undefined, options);
  }

  /** Wakes a sandbox and resolves when it runs. */
  async resume(id: string, { signal, timeoutMs }: CallOptions = {}): Promise<SandboxInfo> {
    await this.connection.post(path`/api/v1/sandboxes/${id}/resume`, undefined, { signal, timeoutMs });
    return this.#untilRunning(await this.#read(id, signal), signal);
  }

  delete(id: string, options?: CallOptions): Promise<Success> {
    return this.connection.json("DELETE", path`/api/v1/sandboxes/${id}`, {
      ...options,
      query: { sandbox_id: id },
    });
  }

  /** The address of a port of the sandbox for a browser. */
  preview(id: string, port: number, options?: CallOptions): Promise<PreviewLink> {
    return this.connection.get(path`/api/v1/sandboxes/${id}/preview`, { port }, options);
  }

  /** What the sandbox may reach. */
  network(id: string, options?: CallOptions): Promise<SandboxNetwork> {
    return this.connection.get(path`/api/v1/sandboxes/${id}/network`, {}, options);
  }

  /** What the sandbox asked for in the network, and what became of it, newest first. */
  networkDecisions(id: string, query?: PageQuery, options?: CallOptions): Promise<PageOf<NetworkDecision>> {
    return this.connection.get(path`/api/v1/sandboxes/${id}/network/decisions`, { ...query }, options);
  }

  /** The names of the secrets that programs in the sandbox can use. */
  secretNames(
    id: string,
    query?: { agent_profile_id?: string },
    options?: CallOptions,
  ): Promise<SandboxSecretNames> {
    return this.connection.get(path`/api/v1/sandboxes/${id}/settings/secrets`, { ...query }, options);
  }

  /** What a folder in the sandbox does by itself; null when it does nothing. */
  findBehaviour(id: string, request: FindBehaviourRequest, options?: CallOptions): Promise<Behaviour | null> {
    return this.connection.post(path`/api/v1/sandboxes/${id}/behaviour`, request, options);
  }

  #untilRunning(sandbox: SandboxInfo, signal: AbortSignal | undefined): Promise<SandboxInfo> {
    let now = sandbox;
    let isFirst = true;
    return poll(async () => {
      if (!isFirst) now = await this.#read(now.id, signal);
      isFirst = false;
      if (now.status === "RUNNING") return now;
      if (now.status === "STARTING" || now.status === "PAUSED") return undefined;
      throw failed(now.status_detail || `The sandbox did not start: it is ${now.status}.`);
    }, signal);
  }

  async #read(id: string, signal: AbortSignal | undefined): Promise<SandboxInfo> {
    const found = await this.get(id, { signal });
    if (!found) throw failed("The sandbox disappeared while it was starting.");
    return found;
  }
}

function failed(detail: string): RequestError {
  return new RequestError({ method: "GET", path: base, status: 0, code: "SandboxFailed", detail });
}
