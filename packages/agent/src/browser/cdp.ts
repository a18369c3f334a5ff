import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";

export interface CdpEvent {
  method: string;
  params: Record<string, unknown>;
  /** The attached page; undefined for the browser itself. */
  sessionId?: string;
}

export interface CdpSendOptions {
  /** The attached page. Default: the browser itself. */
  sessionId?: string | undefined;
  /** Default 10 s. */
  timeoutMs?: number;
  /** Ends the wait, not the command. */
  signal?: AbortSignal | undefined;
}

/** The browser answered with an error, too late (`hung`), or is gone (`ended`). */
export class CdpError extends Error {
  readonly kind: "refused" | "hung" | "ended";

  constructor(message: string, kind: CdpError["kind"] = "refused") {
    super(message);
    this.kind = kind;
  }
}

function ended(): CdpError {
  return new CdpError("The browser ended meanwhile: it crashed, was killed, or lacked memory.", "ended");
}

/** Largest frame in bytes; pages decide about part of the traffic. */
const maxFrameBytes = 16 * 2 ** 20;

/** Frames read per second; the rest waits in the connection, so flooding is harmless. */
const framesPerSecond = 2_000;

const defaultTimeoutMs = 10_000;

type Pending = { resolve: (result: Record<string, unknown>) => void; reject: (error: Error) => void };

/** A DevTools connection to an untrusted browser. */
export class CdpConnection {
  readonly closed: Promise<void>;
  readonly #socket: WebSocket;
  readonly #pending = new Map<number, Pending>();
  readonly #onEvent: (event: CdpEvent) => void;
  #lastId = 0;
  #frames = 0;
  #windowEnd = 0;
  #timer: NodeJS.Timeout | undefined;

  private constructor(socket: WebSocket, onEvent: (event: CdpEvent) => void) {
    this.#socket = socket;
    this.#onEvent = onEvent;
    socket.on("message", (data) => this.#read(String(data)));
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        clearTimeout(this.#timer);
        for (const { reject } of this.#pending.values()) reject(ended());
        this.#pending.clear();
        resolve();
      });
    });
  }

  /** Connects over a stream to the debugging port. Throws what the handshake throws. */
  static async open(
    connection: Duplex,
    { port, path, timeoutMs }: { port: number; path: string; timeoutMs: number },
    onEvent: (event: CdpEvent) => void,
  ): Promise<CdpConnection> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
      createConnection: () => connection as Socket,
      maxPayload: maxFrameBytes,
      perMessageDeflate: false,
    });
    const { promise: opened, resolve, reject } = Promise.withResolvers<void>();
    socket.once("open", resolve);
    // Later errors close the connection, which `close` reports.
    socket.on("error", reject);
    connection.once("close", () => reject(ended()));
    const timer = setTimeout(() => reject(new CdpError("The browser does not answer.", "hung")), timeoutMs);
    try {
      await opened;
    } catch (error) {
      socket.terminate();
      connection.destroy();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    return new CdpConnection(socket, onEvent);
  }

  get open(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Sends a command and returns its result. Throws CdpError, and the signal's reason. */
  async send<T = Record<string, unknown>>(
    method: string,
    params: object = {},
    options: CdpSendOptions = {},
  ): Promise<T> {
    const { sessionId, timeoutMs = defaultTimeoutMs, signal } = options;
    signal?.throwIfAborted();
    if (!this.open) throw ended();
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<Record<string, unknown>>();
    this.#pending.set(id, { resolve, reject });
    const onAbort = () => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort);
    const late = new CdpError(
      `The page did not answer within ${Math.ceil(timeoutMs / 1_000)} seconds.`,
      "hung",
    );
    const timer = setTimeout(() => reject(late), timeoutMs);
    try {
      this.#socket.send(
        JSON.stringify({ id, method, params, ...(sessionId !== undefined && { sessionId }) }),
      );
      return (await promise) as T;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      this.#pending.delete(id);
    }
  }

  close(): void {
    this.#socket.terminate();
  }

  #read(text: string): void {
    this.#slowDown();
    let message: {
      id?: number;
      result?: Record<string, unknown>;
      error?: { message?: unknown };
    } & Partial<CdpEvent>;
    try {
      message = JSON.parse(text);
    } catch {
      return this.close();
    }
    if (typeof message.id !== "number") {
      const { method, params = {}, sessionId } = message;
      if (typeof method === "string")
        this.#onEvent({ method, params, ...(sessionId !== undefined && { sessionId }) });
      return;
    }
    const pending = this.#pending.get(message.id);
    if (message.error) pending?.reject(new CdpError(String(message.error.message).slice(0, 500)));
    else pending?.resolve(message.result ?? {});
  }

  #slowDown(): void {
    const now = performance.now();
    if (now > this.#windowEnd) {
      this.#windowEnd = now + 1_000;
      this.#frames = 0;
    }
    if (++this.#frames !== framesPerSecond) return;
    this.#socket.pause();
    this.#timer = setTimeout(() => this.#socket.resume(), this.#windowEnd - now);
    this.#timer.unref();
  }
}
