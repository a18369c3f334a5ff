import type { Transport, TransportSendOptions } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { JSONRPCMessage, MessageExtraInfo } from "@modelcontextprotocol/sdk/types.js";

/** A transport that says why it ended. */
export interface ServerTransport extends Transport {
  /** The reason; undefined while it is open. */
  readonly ended: string | undefined;
}

const maxPending = 1_000;

/**
 * Wraps a library transport: ends it when the server floods, and fails requests whose answer cannot
 * come any more, instead of waiting for their time-out.
 */
export class GuardedTransport implements ServerTransport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T, extra?: MessageExtraInfo) => void;
  readonly #inner: Transport & { readonly ended?: string | undefined };
  readonly #allowance = new MessageQuota();
  readonly #pending = new Set<string | number>();
  #reason: string | undefined;

  constructor(inner: Transport & { readonly ended?: string | undefined }) {
    this.#inner = inner;
  }

  get ended(): string | undefined {
    return this.#reason ?? this.#inner.ended;
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version);
  }

  async start(): Promise<void> {
    this.#inner.onclose = () => this.onclose?.();
    this.#inner.onerror = (error) => this.onerror?.(error);
    this.#inner.onmessage = (message, extra) => this.#take(message, extra);
    await this.#inner.start();
  }

  async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (this.#reason !== undefined) throw new Error(this.#reason);
    const id = "method" in message && "id" in message ? message.id : undefined;
    if (id !== undefined && this.#pending.size < maxPending) this.#pending.add(id);
    try {
      await this.#inner.send(message, options);
    } catch (error) {
      if (id !== undefined) this.#pending.delete(id);
      throw error;
    }
  }

  /** The stream of an answer ended: fails the request unless the answer arrived. */
  answerEnded(id: string | number, sentence: string): void {
    // The library may still be delivering the last message.
    setImmediate(() =>
      setImmediate(() => {
        if (!this.#pending.delete(id)) return;
        this.onmessage?.({ jsonrpc: "2.0", id, error: { code: -32_000, message: sentence } });
      }),
    );
  }

  /** Ends it; the first reason counts. */
  fail(sentence: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = sentence;
    void this.close().catch(() => {});
  }

  async close(): Promise<void> {
    await this.#inner.close();
  }

  #take(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    if (this.#reason !== undefined) return;
    const isAnswer = !("method" in message) && "id" in message && message.id !== undefined;
    // Requested answers are only limited in length.
    if (!(isAnswer && this.#pending.delete(message.id as string | number)) && !this.#allowance.take(0))
      return this.fail("It sent messages without end, so the connection was cut.");
    this.onmessage?.(message, extra);
  }
}

/** Unrequested messages at once, and per second. */
const burst = 2_000;
const perSecond = 200;

/** Bytes that count as one more message. */
const bytesPerMessage = 16_384;

/** Rate limit of a server's unrequested messages. */
export class MessageQuota {
  #left = burst;
  #at = performance.now();

  /** Counts a message; false when the limit is exceeded. */
  take(bytes: number): boolean {
    const now = performance.now();
    this.#left = Math.min(burst, this.#left + ((now - this.#at) / 1000) * perSecond);
    this.#at = now;
    this.#left -= 1 + bytes / bytesPerMessage;
    return this.#left >= 0;
  }
}
