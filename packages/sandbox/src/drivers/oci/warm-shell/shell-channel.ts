import type { Socket } from "node:net";

/** Longest line that a shell may say, bytes. */
const maxLine = 32;

/**
 * The two-way channel to a resident shell: text goes in, lines come out. What comes is not to be trusted: a line nobody waits for or one
 * that is too long ends the channel.
 */
export class ShellChannel {
  readonly #socket: Socket;
  #rest = "";
  #wanted: ((line: string | undefined) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => this.#take(text));
    socket.on("error", () => {});
    socket.on("close", () => this.#answer(undefined));
    // A shell that waits does not keep the server running.
    socket.unref();
  }

  get open(): boolean {
    return !this.#socket.destroyed && this.#socket.writable;
  }

  /** Calls back once when the channel has ended. */
  onEnd(listener: () => void): void {
    this.#socket.once("close", listener);
  }

  send(text: string): void {
    this.#socket.write(text);
  }

  /** The next line; undefined when the channel ended, or when none came within `patienceMs` (default: waits for ever). One call at a time. */
  line(patienceMs?: number): Promise<string | undefined> {
    if (!this.open) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#wanted = resolve;
      this.#socket.ref();
      if (patienceMs !== undefined) this.#timer = setTimeout(() => this.#answer(undefined), patienceMs);
    });
  }

  end(): void {
    this.#socket.destroy();
    this.#answer(undefined);
  }

  #take(text: string): void {
    this.#rest += text;
    const end = this.#rest.indexOf("\n");
    if (
      end === -1 ? this.#rest.length > maxLine : end > maxLine || end + 1 < this.#rest.length || !this.#wanted
    )
      return this.end();
    if (end === -1) return;
    const line = this.#rest.slice(0, end);
    this.#rest = "";
    this.#answer(line);
  }

  #answer(line: string | undefined): void {
    const wanted = this.#wanted;
    this.#wanted = undefined;
    clearTimeout(this.#timer);
    this.#socket.unref();
    wanted?.(line);
  }
}
