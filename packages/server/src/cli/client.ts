import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { setTimeout as sleep } from "node:timers/promises";
import { findClosestName } from "@sandpiper/core/closest-name";
import { trimTail } from "@sandpiper/core/trim";
import type {
  AppConversation,
  AppConversationStartRequest,
  AppConversationStartTask,
  Behaviour,
  Event,
  PageOf,
  SandboxInfo,
  SandboxSpecInfo,
} from "@sandpiper/wire";
import { CliError, exitCodes } from "./errors.ts";
import type { ModelEndpoint, SandboxRequest } from "./work-options.ts";

/** A client of the platform's HTTP API. Methods throw CliError. */
export class Client {
  /** Without a trailing slash. */
  readonly url: string;
  readonly #key: string;

  constructor(url: string, key: string) {
    this.url = trimTail(url, "/");
    this.#key = key;
  }

  /** The headers that authenticate, for requests and for sockets. */
  get headers(): Record<string, string> {
    return { "X-Session-API-Key": this.#key };
  }

  /** The working folder of the spec that a sandbox was made from. */
  async workingDir(specId: string): Promise<string> {
    const read = (id: string) =>
      this.json<(SandboxSpecInfo | null)[]>("GET", `/api/v1/sandbox-specs?id=${encodeURIComponent(id)}`);
    // The id of a spec that is an image is the image alone.
    const spec = (await read(specId))[0] ?? (await read(`docker://${specId}`))[0];
    if (!spec) throw new CliError(`The server does not know the sandbox spec ${specId}.`);
    return spec.working_dir;
  }

  /** Starts a sandbox and resolves when it runs; without a request, that of the settings. */
  async startSandbox(request: SandboxRequest = {}, signal?: AbortSignal): Promise<SandboxInfo> {
    const { specId, allow, env, workingDir } = request;
    const query = specId === undefined ? "" : `?sandbox_spec_id=${encodeURIComponent(specId)}`;
    const json = {
      ...(allow?.length && { allow }),
      ...(env && { env }),
      ...(workingDir && { working_dir: workingDir }),
    };
    const path = `/api/v1/sandboxes${query}`;
    const sandbox = await this.json<SandboxInfo>("POST", path, { json }).catch(async (error: Error) => {
      if (specId && /no sandbox spec/.test(error.message)) throw await this.#unknownSpec(specId);
      throw error;
    });
    try {
      return await this.#untilRunning(sandbox, signal);
    } catch (error) {
      await this.deleteSandbox(sandbox.id).catch(() => {});
      throw error;
    }
  }

  async #unknownSpec(specId: string): Promise<CliError> {
    const { items } = await this.json<PageOf<SandboxSpecInfo>>(
      "GET",
      "/api/v1/sandbox-specs/search?limit=100",
    );
    const ids = items.map(({ id }) => id);
    const meant = findClosestName(specId, ids);
    const hint = meant === undefined ? `the server has ${ids.join(", ")}.` : `did you mean ${meant}?`;
    return new CliError(`There is no sandbox spec ${specId}: ${hint}`, { exitCode: exitCodes.usage });
  }

  /** Wakes a paused sandbox and resolves when it runs. */
  async resumeSandbox(id: string, signal?: AbortSignal): Promise<SandboxInfo> {
    await this.#request("POST", `/api/v1/sandboxes/${encodeURIComponent(id)}/resume`);
    return this.#untilRunning(await this.#sandbox(id), signal);
  }

  async pauseSandbox(id: string): Promise<void> {
    await this.#request("POST", `/api/v1/sandboxes/${encodeURIComponent(id)}/pause`);
  }

  async #untilRunning(sandbox: SandboxInfo, signal?: AbortSignal): Promise<SandboxInfo> {
    let now = sandbox;
    await pollUntil(async () => {
      if (now.status === "RUNNING") return true;
      if (now.status !== "STARTING" && now.status !== "PAUSED")
        throw new CliError(now.status_detail || `The sandbox did not start: it is ${now.status}.`);
      now = await this.#sandbox(now.id);
      return now.status === "RUNNING";
    }, signal);
    return now;
  }

  async #sandbox(id: string): Promise<SandboxInfo> {
    const [sandbox] = await this.json<(SandboxInfo | null)[]>(
      "GET",
      `/api/v1/sandboxes?id=${encodeURIComponent(id)}`,
    );
    if (!sandbox) throw new CliError("The sandbox disappeared while it was starting.");
    return sandbox;
  }

  async deleteSandbox(id: string): Promise<void> {
    const segment = encodeURIComponent(id);
    await this.#request("DELETE", `/api/v1/sandboxes/${segment}?sandbox_id=${segment}`);
  }

  /** Unpacks a tar stream, with or without holes, below a folder of the sandbox. */
  async upload(sandboxId: string, path: string, tar: Readable, signal?: AbortSignal): Promise<void> {
    await this.#request("PUT", `${archivePath(sandboxId, path)}&sparse=true`, {
      body: Readable.toWeb(tar),
      type: "application/x-tar",
      signal,
    });
  }

  /**
   * Downloads a folder of the sandbox as an untrusted tar stream, without git's own folders, which
   * `extractTar` skips, and without these relative paths.
   */
  async download(sandboxId: string, path: string, without: readonly string[] = []): Promise<Readable> {
    const excludes = [".git", ...without.map((each) => `./${each}`)];
    const query = excludes.map((each) => `&exclude=${encodeURIComponent(each)}`).join("");
    const response = await this.#request("GET", archivePath(sandboxId, path) + query);
    if (!response.body) throw new CliError("The server sent no archive.");
    return Readable.fromWeb(response.body as ReadableStream);
  }

  /** What a folder in a sandbox does by itself; null when it only describes. */
  findBehaviour(sandboxId: string, workingDir: string, origin: string): Promise<Behaviour | null> {
    return this.json("POST", `/api/v1/sandboxes/${encodeURIComponent(sandboxId)}/behaviour`, {
      json: { working_dir: workingDir, origin },
    });
  }

  async acceptBehaviour(digest: string): Promise<void> {
    await this.json("PUT", `/api/v1/behaviours/${encodeURIComponent(digest)}/acceptance`);
  }

  /**
   * Throws CliError when a new conversation could not call its model: it is unknown, its endpoint
   * is not there, or the key is missing or refused.
   */
  async checkModel(
    model: string | undefined,
    { baseUrl, apiKey }: Partial<ModelEndpoint> = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const json = {
      ...(model && { llm_model: model }),
      ...(baseUrl && { llm_base_url: baseUrl }),
      ...(apiKey && { llm_api_key: apiKey }),
    };
    try {
      await this.json("POST", "/api/v1/app-conversations/model-check", { json, signal });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      // An older server checks at the start of the conversation.
      if (error.status === 404 || error.status === 405) return;
      const message = error.detail.replace(" by POST /api/settings", " with sandpiper settings set");
      const exitCode = error.status === 400 ? exitCodes.usage : exitCodes.failed;
      throw new CliError(message, { cause: error, exitCode });
    }
  }

  /** Starts a conversation; returns its id once the agent has its task. */
  async startConversation(request: AppConversationStartRequest, signal?: AbortSignal): Promise<string> {
    let task = await this.json<AppConversationStartTask>("POST", "/api/v1/app-conversations", {
      json: request,
      signal,
    });
    await pollUntil(async () => {
      if (task.status === "ERROR")
        throw new CliError(task.detail || "The conversation could not be started.");
      if (task.status === "READY" && task.app_conversation_id) return true;
      const path = `/api/v1/app-conversations/start-tasks?ids=${task.id}`;
      const [now] = await this.json<(AppConversationStartTask | null)[]>("GET", path);
      if (!now) throw new CliError("The start of the conversation disappeared.");
      task = now;
      return false;
    }, signal);
    return task.app_conversation_id!;
  }

  async conversation(id: string): Promise<AppConversation> {
    const [conversation] = await this.json<(AppConversation | null)[]>(
      "GET",
      `/api/v1/app-conversations?ids=${id}`,
    );
    if (!conversation)
      throw new CliError(`There is no conversation ${id.slice(0, 40)}: "sandpiper ls" lists the ids.`);
    return conversation;
  }

  /** Every stored event, oldest first. */
  async events(id: string): Promise<Event[]> {
    const events: Event[] = [];
    let page: string | null = null;
    do {
      const query: string = page === null ? "" : `&page_id=${encodeURIComponent(page)}`;
      const path = `/api/v1/conversation/${id}/events/search?limit=100&sort_order=TIMESTAMP${query}`;
      const result: PageOf<Event> = await this.json<PageOf<Event>>("GET", path);
      events.push(...result.items);
      page = result.next_page_id;
    } while (page !== null);
    return events;
  }

  /** A conversation with its model traffic, as lines of JSON. */
  async recording(id: string): Promise<Readable> {
    const response = await this.#request(
      "GET",
      `/api/v1/app-conversations/${encodeURIComponent(id)}/recording`,
    );
    if (!response.body) throw new CliError("The server sent no recording.");
    return Readable.fromWeb(response.body as ReadableStream);
  }

  /** Approves the actions that wait for confirmation. */
  async approve(id: string): Promise<void> {
    await this.json("POST", `/api/conversations/${id}/events/respond_to_confirmation`, {
      json: { accept: true },
    });
  }

  /** Rejects the actions that wait for confirmation; the agent then waits for a message. */
  async reject(id: string): Promise<void> {
    await this.json("POST", `/api/conversations/${id}/events/respond_to_confirmation`, {
      json: { accept: false },
    });
  }

  /** Sends a message and runs the agent. */
  async say(id: string, text: string): Promise<void> {
    const message = { role: "user", content: [{ type: "text", text }], run: true };
    await this.json("POST", `/api/conversations/${id}/events`, { json: message });
  }

  /** Uses a model from the next call on. */
  async switchModel(
    id: string,
    { model, baseUrl, apiKey }: Partial<ModelEndpoint> & { model: string },
  ): Promise<void> {
    const llm = { model, ...(baseUrl && { base_url: baseUrl }), ...(apiKey && { api_key: apiKey }) };
    await this.json("POST", `/api/conversations/${id}/switch_llm`, { json: { llm } });
  }

  /** Interrupts the model call and the tools. */
  async interrupt(id: string): Promise<void> {
    await this.#request("POST", `/api/conversations/${id}/interrupt`);
  }

  /** Sends a request and reads its JSON answer; `json` is the body. */
  async json<T>(
    method: string,
    path: string,
    options: { json?: unknown; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    const { json, signal } = options;
    const body = json === undefined ? undefined : JSON.stringify(json);
    const response = await this.#request(method, path, { body, type: body && "application/json", signal });
    try {
      return (await response.json()) as T;
    } catch (error) {
      throw new CliError(`${this.url} did not answer with JSON: it is probably not a Sandpiper server.`, {
        cause: error,
      });
    }
  }

  async #request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const { body, type, signal } = options;
    const headers = { ...this.headers, ...(type && { "Content-Type": type }) };
    let response: Response;
    try {
      const init = {
        method,
        headers,
        redirect: "error",
        ...(body && { body, duplex: "half" }),
        ...(signal && { signal }),
      };
      response = await fetch(this.url + path, init as RequestInit);
    } catch (error) {
      signal?.throwIfAborted();
      throw new CliError(`The server at ${this.url} could not be reached: ${describeFailure(error)}.`, {
        cause: error,
      });
    }
    if (response.ok) return response;
    if (response.status === 401)
      throw new CliError(`The server at ${this.url} does not accept the API key: check SANDPIPER_API_KEY.`);
    const { status } = response;
    const detail = parseDetail(await response.text());
    // A sentence about what was asked for needs no more; a failure of the server does.
    const isSentence = status < 500 && /^[A-Z"]/.test(detail) && detail.endsWith(".");
    throw new Refusal(
      isSentence ? detail : `${method} ${path.split("?")[0]} failed (${status}): ${detail}`,
      status,
      detail,
    );
  }
}

/** A server refused a request. */
export class Refusal extends CliError {
  readonly status: number;
  /** The server's reason alone. */
  readonly detail: string;

  constructor(message: string, status: number, detail: string) {
    super(message);
    this.status = status;
    this.detail = detail;
  }
}

interface RequestOptions {
  body?: string | ReadableStream | undefined;
  type?: string | undefined;
  signal?: AbortSignal | undefined;
}

function archivePath(sandboxId: string, path: string): string {
  return `/api/v1/sandboxes/${encodeURIComponent(sandboxId)}/archive?path=${encodeURIComponent(path)}`;
}

/** The message of an error's body: `{"detail": …}`, a list of field errors, or `{"error": …}`. */
export function parseDetail(body: string): string {
  try {
    const parsed = JSON.parse(body) as { detail?: unknown; error?: unknown };
    const found = parsed.detail ?? parsed.error;
    if (typeof found === "string") return found;
    if (Array.isArray(found))
      return found
        .map((item: { loc?: unknown[]; msg?: string }) => `${item.loc?.join(".") ?? ""}: ${item.msg ?? ""}`)
        .join("; ");
  } catch {
    // Not JSON: use the text.
  }
  return body.trim().slice(0, 300) || "no reason given";
}

/** Why a connection failed, in a few words. */
export function describeFailure(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === "ENOTFOUND") return "its name is unknown";
  return code === "ECONNREFUSED" ? "nothing listens there" : message || code || "the connection failed";
}

/**
 * Polls until the answer is true, from every 2 ms up to every 500 ms. Throws the signal's reason.
 */
async function pollUntil(ask: () => Promise<boolean>, signal?: AbortSignal): Promise<void> {
  for (let wait = 2; !(await ask()); wait = Math.min(wait * 1.3, 500))
    await sleep(wait, undefined, { signal });
}
