import { setTimeout as delay } from "node:timers/promises";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { callTimeout, openTimeout, type ServerSpec } from "./server-spec.ts";
import type { McpSession, ToolCallOptions } from "./session.ts";
import type { ListedTool } from "./tool-list.ts";

/** The first retry is immediate; then pauses grow between these, ms. */
const firstPauseMs = 1_000;
const maxPauseMs = 60_000;

/** Longest pause that a call waits for, ms; beyond it the call fails. */
const maxWaitMs = 5_000;

/** Opens a session. Throws McpFailed, SandboxNotFound, and the signal's reason. */
export type OpenSession = (
  spec: ServerSpec,
  onChange: () => void,
  signal: AbortSignal,
) => Promise<McpSession>;

/** A server of a conversation: connects when needed, reconnects with growing pauses. */
export class ServerLink {
  readonly spec: ServerSpec;
  /** The tools of the last connection. */
  tools: readonly ListedTool[] = [];
  /** Why the connection failed; undefined when connected or not tried yet. */
  problem: string | undefined;
  /** The server has more tools than the limit. */
  more = false;
  readonly #open: OpenSession;
  readonly #onChange: () => void;
  #session: McpSession | undefined;
  #opening: { done: Promise<McpSession>; abort: AbortController } | undefined;
  #failures = 0;
  #retryAt = 0;

  constructor(spec: ServerSpec, open: OpenSession, onChange: () => void) {
    this.spec = spec;
    this.#open = open;
    this.#onChange = onChange;
  }

  get connected(): boolean {
    return this.#session !== undefined && this.#session.ended === undefined;
  }

  /** Remaining pause before the next attempt, ms. */
  get pauseMs(): number {
    return Math.max(0, this.#retryAt - performance.now());
  }

  /** Connects if necessary; concurrent calls share the work. Throws what `OpenSession` throws. */
  async connect(): Promise<McpSession> {
    if (this.#session && this.#session.ended === undefined) return this.#session;
    if (this.#opening) return this.#opening.done;
    const abort = new AbortController();
    const timeoutMs = openTimeout(this.spec.server);
    const timer = setTimeout(() => {
      abort.abort(new PlatformError("McpServerTimeout", { seconds: timeoutMs / 1000 }));
    }, timeoutMs);
    const done = this.#open(this.spec, () => this.#changed(), abort.signal).then(
      (session) => this.#opened(session, abort.signal),
      (error) => {
        this.#failed(errorText(error));
        throw error;
      },
    );
    const opening = { done, abort };
    this.#opening = opening;
    done
      .catch(() => {})
      .finally(() => {
        clearTimeout(timer);
        if (this.#opening === opening) this.#opening = undefined;
      });
    return done;
  }

  /** Calls a tool, reconnects if necessary. Throws McpFailed, and what `connect` throws. */
  async call(
    name: string,
    args: Record<string, unknown>,
    { signal, onProgress }: Pick<ToolCallOptions, "signal" | "onProgress">,
  ): Promise<{ answer: Record<string, unknown>; shown(text: string): string }> {
    for (let attempt = 0; ; attempt++) {
      const session = await this.#forCall(signal);
      try {
        const answer = await session.call(name, args, {
          timeoutMs: callTimeout(this.spec.server),
          signal,
          onProgress,
        });
        this.#failures = 0;
        return { answer, shown: (text) => session.mask(text) };
      } catch (error) {
        signal.throwIfAborted();
        // The server did not process the call.
        if (attempt === 0 && session.isForgotten(error)) {
          session.close();
          continue;
        }
        const next = session.ended === undefined ? "" : "; the next one connects again";
        const about = session.isAnswered(error) ? "" : ` What the call did is unknown${next}.`;
        throw this.#toError(`${errorText(error)}${about}`, error);
      }
    }
  }

  /** Closes the session; the tools stay known. */
  close(): void {
    this.#opening?.abort.abort(new PlatformError("McpConnectionClosed"));
    this.#opening = undefined;
    const session = this.#session;
    this.#session = undefined;
    session?.close();
  }

  async #forCall(signal: AbortSignal): Promise<McpSession> {
    const pause = this.connected || this.#opening ? 0 : this.pauseMs;
    if (pause > maxWaitMs)
      throw this.#toError(
        `It is not connected (${this.problem}), and is tried again in ${Math.ceil(pause / 1000)} seconds.`,
      );
    try {
      signal.throwIfAborted();
      if (pause > 0) await delay(pause, undefined, { signal });
      return await abortable(this.connect(), signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof PlatformError && error.code !== "McpFailed") throw error;
      throw this.#toError(errorText(error), error);
    }
  }

  #opened(session: McpSession, signal: AbortSignal): McpSession {
    if (signal.aborted) {
      session.close();
      throw signal.reason;
    }
    this.#session = session;
    this.problem = undefined;
    this.#changed();
    return session;
  }

  #changed(): void {
    const session = this.#session;
    if (session && session.ended === undefined) {
      this.tools = session.tools;
      this.more = session.more;
    } else if (session) {
      this.#session = undefined;
      this.#failed(session.ended ?? "");
    }
    this.#onChange();
  }

  #failed(problem: string): void {
    this.problem = problem;
    this.#failures += 1;
    const pause = this.#failures === 1 ? 0 : Math.min(maxPauseMs, firstPauseMs * 2 ** (this.#failures - 2));
    this.#retryAt = performance.now() + pause;
  }

  #toError(sentence: string, cause?: unknown): PlatformError {
    const isComplete = sentence.startsWith("The MCP server ");
    const message = isComplete ? sentence : `The MCP server ${this.spec.name} failed: ${sentence}`;
    return new PlatformError("McpServerFailed", { message }, { cause });
  }
}
