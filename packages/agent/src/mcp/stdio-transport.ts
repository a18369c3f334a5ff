import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { JSONRPCMessage, JSONRPCMessageSchema } from "@modelcontextprotocol/sdk/types.js";
import type { SandboxProcess } from "@sandpiper/sandbox/driver";
import { exitCode } from "@sandpiper/sandbox/shell/run";
import { LineReader, maxMessageBytes } from "./line-reader.ts";
import { shortText } from "./message-text.ts";
import { MessageQuota } from "./transport.ts";

/** Characters kept from the end of stderr. */
const maxErrors = 2_000;

/** Bytes that may wait for a server that does not read. */
const maxWaiting = 16 * 1024 * 1024;

/** Time to exit after its input ended, and again after SIGTERM, ms. */
const graceMs = 500;

/** Extra cost of an invalid line. */
const nonsenseBytes = 10 * 16_384;

/** The protocol over a process's pipes, a message per line. Tolerates a few other lines. */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #process: SandboxProcess;
  readonly #allowance = new MessageQuota();
  readonly #lines: LineReader;
  #schema: typeof JSONRPCMessageSchema | undefined;
  #errors = "";
  #reason: string | undefined;
  #closing = false;
  #closed = false;

  constructor(process: SandboxProcess) {
    this.#process = process;
    this.#lines = new LineReader(
      (line) => this.#read(line),
      () =>
        this.#fail(`It sent a message of more than ${maxMessageBytes / 1024 / 1024} MB, so it was ended.`),
    );
  }

  get ended(): string | undefined {
    return this.#reason;
  }

  async start(): Promise<void> {
    const { stdin, stdout, stderr, exit } = this.#process;
    stdin.on("error", () => {});
    stdout.on("error", () => {});
    stderr.on("error", () => {});
    this.#schema = (await import("@modelcontextprotocol/sdk/types.js")).JSONRPCMessageSchema;
    stdout.on("data", (chunk: Buffer) => this.#lines.take(chunk));
    stderr.on("data", (chunk: Buffer) => {
      this.#errors = (this.#errors + chunk.toString("utf8", Math.max(0, chunk.length - maxErrors))).slice(
        -maxErrors,
      );
    });
    void exit.then((status) => {
      const how = status.signal
        ? `was ended by ${status.signal}`
        : `ended with exit code ${exitCode(status)}`;
      const said = shortText(this.#errors, maxErrors).slice(-600);
      this.#reason ??= this.#closing
        ? "It was ended."
        : `Its process ${how}${said ? `; it wrote: ${said}` : " and wrote no error"}.`;
      this.#end();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { stdin } = this.#process;
    if (this.#reason !== undefined || stdin.destroyed || stdin.writableEnded)
      throw new Error(this.#reason ?? "Its process has ended.");
    if (stdin.writableLength > maxWaiting)
      return this.#fail("It does not read what it is sent, so it was ended.");
    stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Ends the process: closes its input, then SIGTERM, then SIGKILL. */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    this.#lines.end();
    const { stdin, stdout, stderr, exit } = this.#process;
    stdin.end();
    stdout.resume();
    stderr.resume();
    const term = setTimeout(() => this.#process.kill("SIGTERM"), graceMs);
    const kill = setTimeout(() => this.#process.kill("SIGKILL"), graceMs * 2);
    void exit.then(() => {
      clearTimeout(term);
      clearTimeout(kill);
    });
    this.#end();
  }

  #read(line: string): void {
    if (line === "") return;
    if (!this.#allowance.take(line.length))
      return this.#fail("It wrote to its output without end, so it was ended.");
    let given: unknown;
    let message: JSONRPCMessage;
    try {
      given = JSON.parse(line);
      message = this.#schema!.parse(given);
    } catch {
      if (!this.#allowance.take(nonsenseBytes))
        return this.#fail("It wrote what is not the protocol to its output, so it was ended.");
      const answer = refusedAnswer(given);
      if (answer) this.onmessage?.(answer);
      return;
    }
    this.onmessage?.(message);
  }

  #fail(sentence: string): void {
    this.#reason ??= sentence;
    this.#process.kill();
    void this.close();
  }

  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
  }
}

/** Turns a malformed response into an error, so that the caller does not wait for another. */
function refusedAnswer(given: unknown): JSONRPCMessage | undefined {
  if (typeof given !== "object" || given === null || "method" in given || !("id" in given)) return undefined;
  const { id } = given;
  if (typeof id !== "number" && typeof id !== "string") return undefined;
  return {
    jsonrpc: "2.0",
    id,
    error: { code: -32_000, message: "It answered what the protocol does not allow." },
  };
}
