import type { Connection } from "../connection.ts";
import type { Event } from "../types.ts";
import { browserWindow } from "../wait.ts";

/** An event as the socket sends it; with `seq` it is in the log. */
export type Frame = Event & { seq?: number; cut?: boolean };

export interface FrameSocketOptions {
  signal: AbortSignal | undefined;
  /** Time without a frame after which the server is asked for one, ms. */
  silenceMs: number;
}

/** Most characters that wait for a slow reader; then the connection ends and can be resumed. */
const maxWaitingChars = 16 * 1024 * 1024;

/** Events of a browser after which a connection is often broken without a notice. */
const wakeEvents = ["online", "visibilitychange"];

/**
 * One WebSocket with events. It notices when the other side is gone, even where no close arrives,
 * as after the sleep of a laptop.
 */
export class FrameSocket {
  /** How the connection ended; 1006 without a notice. */
  closeCode = 1006;
  closeReason = "";
  readonly #socket: WebSocket;
  readonly #silenceMs: number;
  readonly #signal: AbortSignal | undefined;
  #waiting: string[] = [];
  #waitingChars = 0;
  #isEnded = false;
  #isHeard = false;
  #isAsked = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wake = () => {};
  readonly #ask = () => {
    this.#isAsked = true;
    this.#isHeard = false;
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send('{"type":"ping"}');
    this.#check();
  };
  readonly #end = () => {
    this.#isEnded = true;
    this.#wake();
  };

  /** `address`: path and query. */
  constructor({ url, key }: Connection, address: string, { signal, silenceMs }: FrameSocketOptions) {
    this.#silenceMs = silenceMs;
    this.#signal = signal;
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}${address}`);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      // Not in the address, which proxies log.
      if (key !== undefined) socket.send(JSON.stringify({ type: "auth", session_api_key: key }));
    });
    socket.addEventListener("message", ({ data }) => this.#receive(String(data)));
    socket.addEventListener("error", this.#end);
    socket.addEventListener("close", ({ code, reason }) => {
      this.closeCode = code;
      this.closeReason = reason;
      this.#end();
    });
    signal?.addEventListener("abort", this.#end, { once: true });
    for (const name of wakeEvents) browserWindow.addEventListener?.(name, this.#ask);
    this.#check();
  }

  /** The frames in order, until the connection ends. */
  async *frames(): AsyncGenerator<Frame> {
    for (;;) {
      const frames = this.#waiting;
      this.#waiting = [];
      this.#waitingChars = 0;
      for (const text of frames) {
        if (this.#signal?.aborted) return;
        yield JSON.parse(text) as Frame;
      }
      if (this.#waiting.length > 0) continue;
      if (this.#isEnded) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#end);
    for (const name of wakeEvents) browserWindow.removeEventListener?.(name, this.#ask);
    this.#end();
    this.#socket.close();
  }

  #receive(text: string): void {
    if (this.#isEnded) return;
    this.#isHeard = true;
    if (text === '{"type":"pong"}') return;
    this.#waiting.push(text);
    this.#waitingChars += text.length;
    if (this.#waitingChars > maxWaitingChars) this.#end();
    this.#wake();
  }

  /** Asks a silent server for a frame, and ends the connection when none comes. */
  #check(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (!this.#isHeard && this.#isAsked) return this.#end();
      const isSilent = !this.#isHeard;
      this.#isHeard = false;
      this.#isAsked = false;
      if (isSilent) this.#ask();
      else this.#check();
    }, this.#silenceMs / 2);
  }
}
