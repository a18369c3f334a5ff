import type { WebSocket } from "ws";
import type { Frame } from "../../conversations/api.ts";

export interface ReceiptLimits {
  /**
   * Longest wait for a client's states, ms. A client with slow handlers may be far behind; the
   * Python client takes a run call that takes 30 s for a failure. A client that is gone delays one
   * run call, at most until the heartbeat ends its connection.
   */
  maxWaitMs: number;
  /** Longest wait for the answer to two pings behind the answer to a run call, ms. */
  maxEchoMs: number;
}

const defaultLimits: ReceiptLimits = { maxWaitMs: 20_000, maxEchoMs: 500 };

/**
 * Time for a client that comes back, ms: before the Python client handles the first state, it reads
 * the events that it missed and gives them to its callbacks; meanwhile it answers pings.
 */
const catchUpMs = 1_500;

/**
 * Learns when a client has handled the full states that were sent to it. A pong says only that the
 * client's network code has read the state before the ping. The Python client answers the next ping
 * after its handlers have returned, so two answers say that the state is handled.
 */
export class StateReceipts {
  readonly #socket: WebSocket;
  readonly #limits: ReceiptLimits;
  /** Who waits for the answer to a ping, by its number. */
  readonly #pings = new Map<number, () => void>();
  #lastPing = 0;
  /** States that the client has not handled. */
  #unhandled = 0;
  /** Whether a wait for these states was in vain. */
  #isSilent = false;
  #waiting: (() => void)[] = [];

  constructor(socket: WebSocket, limits: Partial<ReceiptLimits> = {}) {
    this.#socket = socket;
    this.#limits = { ...defaultLimits, ...limits };
    socket.on("pong", (data) => this.#onPong(Number(data)));
    socket.once("close", () => this.#wake());
  }

  /** Registers a state. Returns the function to call when it has been written to the socket. */
  expect({ isLate }: Pick<Frame, "isLate">): () => void {
    this.#unhandled++;
    return () => void this.#confirm(isLate ? catchUpMs : 0);
  }

  /** Resolves when all registered states are handled, or when that takes too long. */
  async settle(): Promise<void> {
    if (this.#unhandled === 0 || this.#isSilent || this.#socket.readyState !== this.#socket.OPEN) return;
    const handled = new Promise<boolean>((resolve) => this.#waiting.push(() => resolve(true)));
    if (!(await withTimeout(handled, this.#limits.maxWaitMs))) this.#isSilent = true;
  }

  /** Resolves when the client has answered two pings, or when that takes too long. */
  async echo(): Promise<void> {
    if (this.#isSilent || this.#socket.readyState !== this.#socket.OPEN) return;
    await withTimeout(
      this.#ping().then(() => this.#ping()),
      this.#limits.maxEchoMs,
    );
  }

  async #confirm(extraMs: number): Promise<void> {
    await this.#ping();
    await this.#ping();
    if (extraMs > 0) await new Promise((resolve) => setTimeout(resolve, extraMs).unref());
    if (--this.#unhandled > 0) return;
    this.#isSilent = false;
    this.#wake();
  }

  /** Never resolves when the connection ends first. */
  #ping(): Promise<void> {
    return new Promise((resolve) => {
      const number = ++this.#lastPing;
      this.#pings.set(number, resolve);
      this.#socket.ping(String(number), undefined, () => {});
    });
  }

  /** A client may answer only the last of several pings. Those of the heartbeat have no number. */
  #onPong(number: number): void {
    for (const [sent, resolve] of this.#pings) {
      if (sent > number) return;
      this.#pings.delete(sent);
      resolve();
    }
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** Undefined when the promise does not resolve in time. */
async function withTimeout<Value>(promise: Promise<Value>, ms: number): Promise<Value | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  const value = await Promise.race([promise, late]);
  clearTimeout(timer);
  return value;
}
