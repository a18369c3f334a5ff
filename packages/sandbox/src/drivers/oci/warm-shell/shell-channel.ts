import type { Socket } from "node:net";

const maxLineBytes = 32;

/**
 * The two-way channel to a warm shell: text goes in, lines come out. The shell is not trusted: a
 * line that is unexpected or too long closes the channel.
 */
export class ShellChannel {
  readonly #socket: Socket;
  #rest = "";
  #waiting: ((line: string | undefined) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => this.#take(text));
    socket.on("error", () => {});
    socket.on("close", () => this.#resolve(undefined));
    // An idle shell does not keep the server running.
    socket.unref();
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed && this.#socket.writable;
  }

  onEnd(listener: () => void): void {
    this.#socket.once("close", listener);
  }

  send(text: string): void {
    this.#socket.write(text);
  }

  /**
   * The next line; undefined when the channel ends or no line comes within `timeoutMs` (default: no
   * limit). One call at a time.
   */
  readLine(timeoutMs?: number): Promise<string | undefined> {
    if (!this.isOpen) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#socket.ref();
      if (timeoutMs !== undefined) this.#timer = setTimeout(() => this.#resolve(undefined), timeoutMs);
    });
  }

  end(): void {
    this.#socket.destroy();
    this.#resolve(undefined);
  }

  #take(text: string): void {
    this.#rest += text;
    const end = this.#rest.indexOf("\n");
    if ((end === -1 ? this.#rest.length : end) > maxLineBytes) return this.end();
    if (end === -1) return;
    if (end + 1 < this.#rest.length || !this.#waiting) return this.end();
    const line = this.#rest.slice(0, end);
    this.#rest = "";
    this.#resolve(line);
  }

  #resolve(line: string | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    clearTimeout(this.#timer);
    this.#socket.unref();
    waiting?.(line);
  }
}
