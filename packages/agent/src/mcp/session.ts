import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { SecretMatcher } from "@sandpiper/core/secrets/secret-matcher";
import { hideSecrets } from "@sandpiper/core/secrets/secret-stream";
import { hiddenSecret } from "../masking/output-mask.ts";
import type { ToolProgress } from "../tools/tool.ts";
import { shortText, shownText } from "./message-text.ts";
import { remoteProblem } from "./remote-fetch.ts";
import { type ListedTool, listTools } from "./tool-list.ts";
import type { ServerTransport } from "./transport.ts";

/** Time to wait for a list that a call changed, ms. */
const freshMs = 2_000;

/** Immediate list requests; then pauses grow, and a quiet period resets them, ms. */
const freeLists = 5;
const maxListPauseMs = 60_000;

/** Longest call while the server reports progress, ms. */
const maxCallMs = 3_600_000;

const maxProgress = 500;

/** The library's codes for a closed connection and a late answer. */
const codes = { closed: -32_000, late: -32_001 };

export interface ToolCallOptions {
  /** Without a message from the server, ms. */
  timeoutMs: number;
  signal: AbortSignal;
  onProgress?: ((progress: ToolProgress) => void) | undefined;
}

/** One connection to a server. */
export class McpSession {
  tools: readonly ListedTool[] = [];
  /** The server has more tools than the limit. */
  more = false;
  /** Why it ended; undefined while it is open. */
  ended: string | undefined;
  readonly #client: Client;
  readonly #transport: ServerTransport;
  readonly #hidden: SecretMatcher;
  readonly #onChange: () => void;
  readonly #closing = new AbortController();
  #listing: Promise<void> | undefined;
  #stale = false;
  #lists = 0;
  #listedAt = 0;

  private constructor(
    client: Client,
    transport: ServerTransport,
    hidden: readonly string[],
    onChange: () => void,
  ) {
    this.#client = client;
    this.#transport = transport;
    this.#hidden = new SecretMatcher(hidden);
    this.#onChange = onChange;
  }

  /**
   * Connects and lists the tools. `hidden` texts are masked; `onChange` reports changed tools or
   * the end. Throws McpFailed, and the signal's reason, and closes the transport then.
   */
  static async open(
    transport: ServerTransport,
    { hidden, onChange, signal }: { hidden: readonly string[]; onChange: () => void; signal: AbortSignal },
  ): Promise<McpSession> {
    const [{ Client: ProtocolClient }, { ToolListChangedNotificationSchema: changed }] = await Promise.all([
      import("@modelcontextprotocol/sdk/client/index.js"),
      import("@modelcontextprotocol/sdk/types.js"),
    ]);
    const client = new ProtocolClient({ name: "sandpiper", version: "0.1.0" });
    const session = new McpSession(client, transport, hidden, onChange);
    client.setNotificationHandler(changed, () => session.#refresh());
    client.onclose = () => session.#end("The connection ended.");
    try {
      signal.throwIfAborted();
      await abortable(client.connect(transport, { timeout: 2_147_483_647 }), signal);
      // Servers without tools do not announce the capability.
      if (client.getServerCapabilities()?.tools) await abortable(session.#list(), signal);
      return session;
    } catch (error) {
      const problem = signal.aborted ? signal.reason : session.problem(error);
      session.close();
      throw problem;
    }
  }

  /** Calls a tool and returns the raw answer. Throws McpFailed, and the signal's reason. */
  async call(
    name: string,
    args: Record<string, unknown>,
    { timeoutMs, signal, onProgress }: ToolCallOptions,
  ): Promise<Record<string, unknown>> {
    const { ResultSchema } = await import("@modelcontextprotocol/sdk/types.js");
    // The library never removes its listeners from a signal.
    const own = new AbortController();
    const onAbort = () => own.abort(signal.reason);
    signal.addEventListener("abort", onAbort);
    try {
      signal.throwIfAborted();
      const answer = await this.#client.request(
        { method: "tools/call", params: { name, arguments: args } },
        ResultSchema,
        {
          timeout: timeoutMs,
          maxTotalTimeout: Math.max(timeoutMs, maxCallMs),
          resetTimeoutOnProgress: true,
          onprogress: ({ progress, total, message }) => {
            onProgress?.({
              progress,
              total,
              message: message && shownText(message, maxProgress, (text) => this.mask(text)),
            });
          },
          signal: own.signal,
        },
      );
      await this.#fresh();
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      throw this.problem(error, timeoutMs);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Hides the secrets of the server's configuration. */
  mask(text: string): string {
    return hideSecrets(this.#hidden, text, hiddenSecret);
  }

  close(): void {
    this.#end("The connection was closed.");
    void this.#client.close().catch(() => {});
    // The client does not know it when it never connected.
    void this.#transport.close().catch(() => {});
  }

  /** The error as McpFailed, without secrets. */
  problem(error: unknown, timeoutMs?: number): PlatformError {
    const message = this.mask(this.#sentence(error, timeoutMs));
    return new PlatformError("McpServerFailed", { message }, { cause: error });
  }

  #sentence(error: unknown, timeoutMs: number | undefined): string {
    const { code, issues } = error as { code?: unknown; issues?: unknown };
    const text = errorText(error).replace(/^MCP error -?\d+: /, "");
    if (this.#transport.ended !== undefined) return this.#transport.ended;
    if (code === codes.closed && text === "Connection closed") return this.ended ?? "The connection ended.";
    if (code === codes.late && timeoutMs !== undefined)
      return `It said nothing for ${Math.max(1, Math.round(timeoutMs / 1000))} s.`;
    // The server's own words.
    if (typeof code === "number" && code < 0) return shortText(text, 2_000) || "It answered with an error.";
    // Validation errors of the library are too long.
    if (issues !== undefined) return "It answered what the protocol does not allow.";
    return remoteProblem(error);
  }

  /** Whether the server answered, with a protocol error or a refusal, so the outcome is known. */
  isAnswered(error: unknown): boolean {
    const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
    return typeof code === "number" && code !== codes.closed && code !== codes.late;
  }

  /** The server no longer knows the session. */
  isForgotten(error: unknown): boolean {
    const cause = error instanceof PlatformError ? error.cause : undefined;
    return this.#transport.sessionId !== undefined && (cause as { code?: unknown } | undefined)?.code === 404;
  }

  async #list(): Promise<void> {
    const { tools, more } = await listTools(this.#client, {
      signal: this.#closing.signal,
      shown: (text) => this.mask(text),
    });
    this.tools = tools;
    this.more = more;
  }

  /** Reads the list again, at a limited rate. */
  #refresh(): void {
    this.#stale = true;
    this.#listing ??= this.#relist().finally(() => {
      this.#listing = undefined;
    });
  }

  async #relist(): Promise<void> {
    while (this.#stale && this.ended === undefined) {
      const now = performance.now();
      if (now - this.#listedAt > maxListPauseMs) this.#lists = 0;
      const pause =
        this.#lists < freeLists ? 0 : Math.min(maxListPauseMs, 250 * 2 ** (this.#lists - freeLists));
      if (pause > 0) await delay(pause, undefined, { ref: false });
      this.#lists += 1;
      this.#listedAt = performance.now();
      this.#stale = false;
      // After an error the old list stays.
      await this.#list().catch(() => {});
      this.#onChange();
    }
  }

  /** Waits for a list that the call changed, before the model is asked again. */
  async #fresh(): Promise<void> {
    if (this.#listing) await Promise.race([this.#listing, delay(freshMs, undefined, { ref: false })]);
  }

  #end(reason: string): void {
    if (this.ended !== undefined) return;
    this.ended = this.#transport.ended ?? reason;
    this.#closing.abort(new Error(this.ended));
    this.#onChange();
  }
}
