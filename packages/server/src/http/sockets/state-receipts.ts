import type { WebSocket } from "ws";
import type { Frame } from "../../conversations/api.ts";

/** Longest wait for a client, ms. A client that is gone must not hold back the others for long. */
const maxWaitMs = 2_000;

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
  /** Who waits for the answer to a ping, by its number. */
  readonly #pings = new Map<number, () => void>();
  #lastPing = 0;
  /** States that the client has not handled. */
  #unhandled = 0;
  /** Whether a wait for these states was in vain. */
  #isSilent = false;
  #waiting: (() => void)[] = [];

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("pong", (data) => this.#onPong(Number(data)));
    socket.once("close", () => this.#wake());
  }

  /** Registers a state. Returns the function to call when it has been written to the socket. */
  expect({ isLate }: Pick<Frame, "isLate">): () => void {
    this.#unhandled++;
    return () => void this.#confirm(isLate ? catchUpMs : 0);
  }

  /** Resolves when all registered states are handled, and at the latest after two seconds. */
  async settle(): Promise<void> {
    if (this.#unhandled === 0 || this.#isSilent || this.#socket.readyState !== this.#socket.OPEN) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#isSilent = true;
        resolve();
      }, maxWaitMs);
    });
    await Promise.race([new Promise<void>((resolve) => this.#waiting.push(resolve)), late]);
    clearTimeout(timer);
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
