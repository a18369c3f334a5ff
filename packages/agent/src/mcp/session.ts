import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { SecretMatcher } from "@sandpiper/core/secrets/secret-matcher";
import { hideSecrets } from "@sandpiper/core/secrets/secret-stream";
import { hiddenSecret } from "../masking/output-mask.ts";
import type { ToolProgress } from "../tools/tool.ts";
import { shortText, shownText } from "./message-text.ts";
import { remoteProblem } from "./remote-fetch.ts";
import { type ListedTool, listTools } from "./tool-list.ts";
import type { ServerTransport } from "./transport.ts";

/** How long a server's list is waited for after a call that changed it, ms. */
const freshMs = 2_000;

/** Lists that are read at once; after them the pauses grow up to the longest, and a quiet time makes good again, ms. */
const freeLists = 5;
const longestListPauseMs = 60_000;

/** How long a call goes on at most while the server tells of progress, ms. */
const longestCallMs = 3_600_000;

/** Characters that are taken of what a server says about its progress. */
const maxProgress = 500;

/** Codes of the protocol's library for a connection that ended, and an answer that did not come in time. */
const codes = { closed: -32_000, late: -32_001 };

export interface CallOptions {
  /** Without a word from the server, ms. */
  timeoutMs: number;
  signal: AbortSignal;
  onProgress?: ((progress: ToolProgress) => void) | undefined;
}

/** One connection to a server, from its greeting to its end. */
export class Session {
  tools: readonly ListedTool[] = [];
  /** The server has more tools than are taken. */
  more = false;
  /** Why it has ended; undefined while it goes on. */
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
   * Greets a server and reads its tools. `hidden` are texts that nothing it says may show; `onChange` is called when its tools have changed or it has ended.
   * Throws McpFailed with a sentence about it, and the signal's reason; the transport is closed then.
   */
  static async open(
    transport: ServerTransport,
    { hidden, onChange, signal }: { hidden: readonly string[]; onChange: () => void; signal: AbortSignal },
  ): Promise<Session> {
    const [{ Client: ProtocolClient }, { ToolListChangedNotificationSchema: changed }] = await Promise.all([
      import("@modelcontextprotocol/sdk/client/index.js"),
      import("@modelcontextprotocol/sdk/types.js"),
    ]);
    const client = new ProtocolClient({ name: "sandpiper", version: "0.1.0" });
    const session = new Session(client, transport, hidden, onChange);
    client.setNotificationHandler(changed, () => session.#refresh());
    client.onclose = () => session.#end("The connection ended.");
    const onAbort = () => void client.close().catch(() => {});
    signal.addEventListener("abort", onAbort);
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    aborted.catch(() => {});
    try {
      signal.throwIfAborted();
      const greeting = client.connect(transport, { timeout: 2_147_483_647 });
      greeting.catch(() => {});
      await Promise.race([greeting, aborted]);
      // Some servers have no tools, and say so by not naming them.
      if (client.getServerCapabilities()?.tools) await Promise.race([session.#list(), aborted]);
      return session;
    } catch (error) {
      const problem = signal.aborted ? signal.reason : session.problem(error);
      session.close();
      throw problem;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Calls a tool and gives its answer as it came. Throws McpFailed with a sentence, and the signal's reason. */
  async call(
    name: string,
    args: Record<string, unknown>,
    { timeoutMs, signal, onProgress }: CallOptions,
  ): Promise<Record<string, unknown>> {
    const { ResultSchema } = await import("@modelcontextprotocol/sdk/types.js");
    // The library never takes its listeners off a signal.
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
          maxTotalTimeout: Math.max(timeoutMs, longestCallMs),
          resetTimeoutOnProgress: true,
          onprogress: ({ progress, total, message }) => {
            onProgress?.({
              progress,
              total,
              message: message && shownText(message, maxProgress, (text) => this.shown(text)),
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

  /** Takes secrets of the server's configuration out of what it says. */
  shown(text: string): string {
    return hideSecrets(this.#hidden, text, hiddenSecret);
  }

  close(): void {
    this.#end("The connection was closed.");
    void this.#client.close().catch(() => {});
    // A client that never connected does not know it.
    void this.#transport.close().catch(() => {});
  }

  /** What went wrong, without secrets. */
  problem(error: unknown, timeoutMs?: number): PlatformError {
    return new PlatformError("McpFailed", this.shown(this.#sentence(error, timeoutMs)), { cause: error });
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
    // The library's own checks of what came, which say too much.
    if (issues !== undefined) return "It answered what the protocol does not allow.";
    return remoteProblem(error);
  }

  /** Whether the server has answered, so that it is known what became of a call: with an error of the protocol, or a refusal of the request. */
  isAnswered(error: unknown): boolean {
    const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
    return typeof code === "number" && code !== codes.closed && code !== codes.late;
  }

  /** The server's session is not known to it any more: it has to be greeted anew. */
  isForgotten(error: unknown): boolean {
    const cause = error instanceof PlatformError ? error.cause : undefined;
    return this.#transport.sessionId !== undefined && (cause as { code?: unknown } | undefined)?.code === 404;
  }

  async #list(): Promise<void> {
    const { tools, more } = await listTools(this.#client, {
      signal: this.#closing.signal,
      shown: (text) => this.shown(text),
    });
    this.tools = tools;
    this.more = more;
  }

  /** Reads the list again; a server that says all the time that it changed is asked now and then. */
  #refresh(): void {
    this.#stale = true;
    this.#listing ??= this.#relist().finally(() => {
      this.#listing = undefined;
    });
  }

  async #relist(): Promise<void> {
    while (this.#stale && this.ended === undefined) {
      const now = performance.now();
      if (now - this.#listedAt > longestListPauseMs) this.#lists = 0;
      const pause =
        this.#lists < freeLists ? 0 : Math.min(longestListPauseMs, 250 * 2 ** (this.#lists - freeLists));
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause).unref());
      this.#lists += 1;
      this.#listedAt = performance.now();
      this.#stale = false;
      // A list that cannot be read stays as it was.
      await this.#list().catch(() => {});
      this.#onChange();
    }
  }

  /** Lets a list that changed with a call be read before the model is asked again. */
  async #fresh(): Promise<void> {
    if (!this.#listing) return;
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, freshMs);
    await Promise.race([this.#listing, late]);
    clearTimeout(timer);
  }

  #end(reason: string): void {
    if (this.ended !== undefined) return;
    this.ended = this.#transport.ended ?? reason;
    this.#closing.abort(new Error(this.ended));
    this.#onChange();
  }
}
