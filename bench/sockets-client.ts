import { connect, type Socket } from "node:net";

/**
 * A cheap WebSocket client: it passes on payloads and answers pings. `pause` stops reading;
 * `vanish` stops answering, like a client that lost its network.
 */
export class LightSocket {
  readonly connection: Socket;
  /** Resolves with the first frame after the handshake; rejects where that is refused. */
  readonly opened: Promise<void>;
  /** Resolves when the connection has ended, with the server's close code and reason if any. */
  readonly closed: Promise<{ code: number; reason: string }>;
  #rest: Buffer = Buffer.alloc(0);
  #upgraded = false;
  #silent = false;
  #close = { code: 1006, reason: "" };
  /** The first line of an answer that is no handshake. */
  #refusal = "closed without an answer";

  constructor(url: URL, headers: Record<string, string>, onFrame: (payload: Buffer) => void) {
    const lines = Object.entries({
      host: url.host,
      ...{ connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" },
      ...{ "sec-websocket-key": "c2FuZHBpcGVyLWJlbmNoMQ==", ...headers },
    });
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    this.connection = connect(Number(url.port), url.hostname);
    this.connection.setNoDelay(true).write(`GET ${url.pathname}${url.search} HTTP/1.1\r\n${head}\r\n`);
    let open: () => void;
    this.opened = new Promise((resolve, reject) => {
      open = resolve;
      this.connection.once("close", () => reject(new Error(`The handshake was refused: ${this.#refusal}.`)));
    });
    this.opened.catch(() => {});
    this.closed = new Promise((resolve) => this.connection.once("close", () => resolve(this.#close)));
    this.connection.on("error", () => {});
    this.connection.on("data", (chunk: Buffer) => {
      this.#take(chunk, (payload) => {
        open();
        onFrame(payload);
      });
    });
  }

  /** Answers no ping any more; the connection stays. */
  vanish(): void {
    this.#silent = true;
  }

  end(): void {
    this.connection.destroy();
  }

  #take(chunk: Buffer, onFrame: (payload: Buffer) => void): void {
    let data = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    if (!this.#upgraded) {
      const end = data.indexOf("\r\n\r\n");
      if (end < 0) {
        this.#rest = data;
        return;
      }
      if (!data.toString("latin1", 0, 12).endsWith("101")) {
        this.#refusal = data.toString("latin1", 0, Math.min(end, 300)).replaceAll("\r\n", "; ");
        return void this.connection.destroy();
      }
      this.#upgraded = true;
      data = data.subarray(end + 4);
    }
    let at = 0;
    for (;;) {
      if (data.length - at < 2) break;
      let length = data[at + 1]! & 0x7f;
      let start = at + 2;
      if (length === 126) {
        if (data.length - at < 4) break;
        length = data.readUInt16BE(start);
        start += 2;
      } else if (length === 127) {
        if (data.length - at < 10) break;
        length = Number(data.readBigUInt64BE(start));
        start += 8;
      }
      if (data.length < start + length) break;
      this.#frame(data[at]! & 0x0f, data.subarray(start, start + length), onFrame);
      at = start + length;
    }
    this.#rest = data.subarray(at);
  }

  #frame(opcode: number, payload: Buffer, onFrame: (payload: Buffer) => void): void {
    if (opcode === 1) onFrame(payload);
    else if (opcode === 9 && !this.#silent) this.#answer(0xa, payload);
    else if (opcode === 8) {
      this.#close = { code: payload.readUInt16BE(0), reason: payload.toString("utf8", 2) };
      if (!this.#silent) this.#answer(8, payload.subarray(0, 2));
    }
  }

  /** Clients have to mask; a mask of zeros leaves the bytes as they are. */
  #answer(opcode: number, payload: Buffer): void {
    if (this.connection.writable) {
      this.connection.write(
        Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]), payload]),
      );
    }
  }
}
