import WebSocket from "ws";

/** Escape sequences of a line editor: modes, titles, colours. */
export const escapes = /\x1b\[\?2004[hl]\r?|\x1b\[[\d;?]*[A-Za-z]|\x1b\([A-Z0-9]|\x1b\][^\x07]*\x07/g;

/** A user's terminal over a socket; keeps its output as text. */
export class TerminalClient {
  readonly socket: WebSocket;
  shown = "";
  bytes = 0;
  readonly closed: Promise<{ code: number; reason: string }>;
  #end: { code: number; reason: string } | undefined;
  readonly #decoder = new TextDecoder();
  readonly #waiting = new Set<() => void>();

  constructor(
    server: { url: string; key: string },
    path: string,
    headers: Record<string, string> = { "x-session-api-key": server.key },
  ) {
    this.socket = new WebSocket(server.url.replace(/^http/, "ws") + path, { headers });
    this.socket.setMaxListeners(0);
    this.socket.on("error", () => {});
    this.socket.on("message", (data: Buffer, isBinary) => {
      if (!isBinary) throw new Error(`A terminal sends binary frames only, not ${data}`);
      this.bytes += data.length;
      this.shown = (this.shown + this.#decoder.decode(data, { stream: true }))
        .slice(-50_000)
        .replace(escapes, "");
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      this.socket.once("close", (code, reason) => {
        this.#end = { code, reason: String(reason) };
        resolve(this.#end);
        this.#wake();
      });
    });
  }

  /** Types, in a binary frame. */
  type(text: string): void {
    this.raw(Buffer.from(text));
  }

  send(frame: unknown): void {
    this.raw(JSON.stringify(frame));
  }

  /** Sends a frame as it is, as soon as the socket is open. */
  raw(frame: string | Buffer): void {
    if (this.socket.readyState === this.socket.CONNECTING)
      this.socket.once("open", () => this.socket.send(frame));
    else if (this.socket.readyState === this.socket.OPEN) this.socket.send(frame);
  }

  /** Waits for the text and consumes up to its end. Throws when the socket closes or after 20 s. */
  async shows(pattern: RegExp): Promise<RegExpExecArray> {
    const late = setTimeout(() => {
      this.#end ??= { code: 0, reason: "not yet" };
      this.#wake();
    }, 20_000);
    try {
      return await this.#shows(pattern);
    } finally {
      clearTimeout(late);
    }
  }

  async #shows(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.shown);
      if (match) {
        this.shown = this.shown.slice(match.index + match[0].length);
        return match;
      }
      if (this.#end)
        throw new Error(
          `Closed (${this.#end.code} ${this.#end.reason}) without ${pattern}:\n${JSON.stringify(this.shown.slice(-2_000))}`,
        );
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
