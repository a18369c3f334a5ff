import { execFileSync } from "node:child_process";
import { text } from "node:stream/consumers";
import { WebSocket } from "ws";
import { type Client, describeFailure, parseDetail } from "./client.ts";
import { connect } from "./connect.ts";
import { CliError, exitCodes } from "./errors.ts";
import { exitCodeOf, onStop } from "./signals.ts";

/** Standard input pauses while more bytes than this are unsent. */
const highInput = 256 * 1024;
/** Maximum frame, bytes. */
const maxFrame = 64 * 1024;
/** The server pings every 25 s: after this time without a ping the connection is dead. */
const silenceMs = 60_000;
/** Interval of pongs while output is blocked. */
const aliveMs = 10_000;

/** Resets bracketed paste, mouse reports, the cursor and colours after a broken connection. */
const resetModes = "\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?25h\x1b[0m";

/**
 * `sandpiper attach`: opens a shell in a sandbox on this terminal, or over pipes, and returns its
 * exit code. Throws CliError when the sandbox is unknown or the connection breaks.
 */
export async function attach(sandbox: string): Promise<number> {
  if (!/^[\w-]{1,63}$/.test(sandbox))
    throw new CliError(`${JSON.stringify(sandbox)} is not a sandbox id.`, { exitCode: exitCodes.usage });
  const connection = await connect();
  try {
    return await new Attachment(connection.client, sandbox).ended;
  } finally {
    await connection.close();
  }
}

class Attachment {
  /** Resolves with the exit code of the shell. */
  readonly ended: Promise<number>;
  readonly #client: Client;
  readonly #sandbox: string;
  readonly #onTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  readonly #socket: WebSocket;
  #interrupted: NodeJS.Signals | undefined;
  /** Restores the local terminal. */
  #restore = () => {};

  constructor(client: Client, sandbox: string) {
    this.#client = client;
    this.#sandbox = sandbox;
    const { columns = 80, rows = 24 } = process.stdout;
    const query = this.#onTerminal ? `cols=${columns}&rows=${rows}` : "tty=false";
    const url = `${client.url.replace(/^http/, "ws")}/agent/${sandbox}/sockets/terminal?${query}`;
    this.#socket = new WebSocket(url, {
      headers: client.headers,
      perMessageDeflate: false,
      handshakeTimeout: 30_000,
    });
    this.ended = this.#run();
  }

  async #run(): Promise<number> {
    const socket = this.#socket;
    const { promise, resolve, reject } = Promise.withResolvers<{ code: number; why: string }>();
    socket.once("close", (code, why) => resolve({ code, why: String(why) }));
    socket.once("error", (error) => reject(this.#unreachable(error)));
    socket.once("unexpected-response", (_request, response) => {
      text(response).then(
        (body) => reject(this.#refused(response.statusCode ?? 0, parseDetail(body))),
        reject,
      );
    });
    socket.once("open", () => this.#start());
    const unstop = onStop((signal) => {
      this.#interrupted = signal;
      socket.terminate();
    });
    const silence = setTimeout(() => socket.terminate(), silenceMs);
    socket.on("ping", () => silence.refresh());
    socket.on("message", (data: Buffer) => this.#show(data));
    try {
      const { code, why } = await promise;
      const exit = /^exit (\d+)$/.exec(why);
      if (code === 1000 && exit) return Number(exit[1]);
      if (this.#onTerminal) process.stdout.write(resetModes);
      if (this.#interrupted) return exitCodeOf(this.#interrupted);
      throw this.#closed(code, why);
    } finally {
      clearTimeout(silence);
      unstop();
      socket.terminate();
      this.#restore();
      process.stdin.destroy();
    }
  }

  /** Connects the two ends. */
  #start(): void {
    const { stdin, stdout } = process;
    if (this.#onTerminal) {
      this.#restore = rawTerminal();
      stdout.on("resize", () =>
        this.#send(JSON.stringify({ type: "resize", cols: stdout.columns, rows: stdout.rows })),
      );
    }
    stdin.on("data", (chunk: Buffer) => {
      for (let at = 0; at < chunk.length; at += maxFrame) this.#send(chunk.subarray(at, at + maxFrame));
      if (this.#socket.bufferedAmount > highInput) stdin.pause();
    });
    stdin.once("end", () => this.#send(JSON.stringify({ type: "eof" })));
    // The terminal is gone: end the shell.
    stdin.once("error", () => this.#socket.terminate());
  }

  #send(frame: string | Buffer): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#socket.send(frame, () => {
      if (process.stdin.isPaused() && this.#socket.bufferedAmount <= highInput / 2) process.stdin.resume();
    });
  }

  #show(data: Buffer): void {
    if (process.stdout.write(data)) return;
    const socket = this.#socket;
    socket.pause();
    const alive = setInterval(() => socket.pong(), aliveMs);
    const goOn = () => {
      clearInterval(alive);
      socket.resume();
      process.stdout.off("drain", goOn);
    };
    process.stdout.on("drain", goOn);
    socket.once("close", goOn);
  }

  #unreachable(error: unknown): CliError {
    return new CliError(
      `The server at ${this.#client.url} could not be reached: ${describeFailure(error)}.`,
      {
        cause: error,
      },
    );
  }

  #refused(status: number, why: string): CliError {
    const { url } = this.#client;
    if (status === 401 || status === 403)
      return new CliError(`The server at ${url} does not accept the API key: check SANDPIPER_API_KEY.`);
    if (status === 404 && /^Sandbox not found/.test(why)) return this.#unknown();
    if (status === 404)
      return new CliError(
        `The server at ${url} does not offer terminals: it is probably not a Sandpiper server of this version.`,
      );
    return new CliError(`The server at ${url} did not open a terminal (${status}): ${why}`);
  }

  #closed(code: number, why: string): CliError {
    if (code === 4004) return /deleted/.test(why) ? new CliError(`${why}.`) : this.#unknown();
    return new CliError(
      why ? `The terminal was closed: ${why}` : `The connection to ${this.#client.url} broke (code ${code}).`,
    );
  }

  #unknown(): CliError {
    return new CliError(`There is no sandbox ${this.#sandbox}.`);
  }
}

/**
 * Switches the terminal to raw mode and returns the function that restores it; Node also restores
 * it at exit. `setRawMode` is only a fallback for systems without `stty`: it converts `\n` to
 * `\r\n`, which breaks full-screen programs.
 */
function rawTerminal(): () => void {
  try {
    const before = stty("-g").trim();
    stty("raw", "-echo");
    return () => void stty(before);
  } catch {
    process.stdin.setRawMode(true);
    return () => void process.stdin.setRawMode(false);
  }
}

function stty(...words: string[]): string {
  return execFileSync("stty", words, { stdio: ["inherit", "pipe", "ignore"], encoding: "utf8" });
}
