import { type Readable, Writable } from "node:stream";
import type { ExitStatus, SandboxProcess } from "../../driver.ts";
import { toExitStatus } from "../common/commands.ts";
import type { Channel, SendFrame } from "./channel.ts";
import { helperPath } from "./helper-program.ts";
import {
  answer,
  encodeAllowance,
  encodeCommand,
  encodeSignal,
  encodeSize,
  type HelperCommand,
  HelperError,
  request,
} from "./protocol.ts";
import { ReceiveWindow, SendWindow } from "./windows.ts";

/** Control-D, which ends the input of a terminal. */
const endOfInput = Buffer.from([4]);

/** A command that the helper runs. */
export class ResidentProcess implements SandboxProcess, Channel {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exit: Promise<ExitStatus>;
  readonly #send: SendFrame;
  readonly #streams: [ReceiveWindow, ReceiveWindow];
  readonly #input: SendWindow;
  readonly #sent = new Set<NodeJS.Signals>();
  readonly #hasTerminal: boolean;
  #isLost = false;
  #end!: (code: number | null) => void;
  #hasEnded = false;

  /** `onEnd` is called once another command may use the channel. */
  constructor(send: SendFrame, command: HelperCommand, onEnd: () => void) {
    this.#send = send;
    this.#hasTerminal = command.tty !== undefined;
    send(request.run, encodeCommand(command));
    const open = (stream: number) =>
      new ReceiveWindow((bytes) => !this.#hasEnded && send(request.allow, encodeAllowance(stream, bytes)));
    this.#streams = [open(0), open(1)];
    this.stdout = this.#streams[0].output;
    this.stderr = this.#streams[1].output;
    this.#input = new SendWindow((piece) => send(request.input, piece));
    this.stdin = this.#makeStdin();
    this.exit = new Promise((resolve) => {
      this.#end = (code) => {
        if (this.#hasEnded) return;
        this.#hasEnded = true;
        for (const { output } of this.#streams) output.end();
        this.#input.end();
        this.stdin.destroy();
        onEnd();
        resolve(toExitStatus(code, this.#sent));
      };
    });
  }

  onFrame(type: number, payload: Buffer): void {
    if (type === answer.output) this.#streams[payload[0] === 0 ? 0 : 1].take(payload.subarray(1));
    else if (type === answer.ended) this.#streams[payload[0] === 0 ? 0 : 1].output.end();
    else if (type === answer.taken && payload.length === 4) this.#input.taken(payload.readUInt32BE());
    else if (type === answer.exited && payload.length === 4) this.#end(payload.readUInt32BE() & 0xff);
    else if (type === answer.failed) {
      this.#streams[this.#hasTerminal ? 0 : 1].take(Buffer.from(`${new HelperError(payload).message}\n`));
      this.#end(126);
    }
  }

  onLost(): void {
    this.#isLost = !this.#hasEnded;
    this.#end(null);
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  kill(signal: NodeJS.Signals = "SIGKILL"): void {
    if (this.#hasEnded) return;
    this.#sent.add(signal);
    this.#send(request.signal, encodeSignal(signal));
  }

  resize(cols: number, rows: number): void {
    if (!this.#hasEnded && this.#hasTerminal) this.#send(request.resize, encodeSize(cols, rows));
  }

  /** Returns a command that the process runs: the helper inherits the descriptor and unlocks it. */
  async unlockTerminal(fd: number, { cols, rows }: { cols: number; rows: number }): Promise<string[]> {
    return [helperPath, "unlock", String(fd), String(cols), String(rows)];
  }

  leave(): void {
    if (!this.#hasEnded) this.#send(request.finish);
    this.#end(null);
  }

  #makeStdin(): Writable {
    const stdin = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (this.#hasEnded) done();
        else this.#input.write(chunk, done);
      },
      final: (done) => {
        if (this.#hasEnded) return done();
        if (this.#hasTerminal) return this.#input.write(endOfInput, done);
        this.#send(request.finish);
        done();
      },
    });
    // The command may end before all input is written.
    stdin.on("error", () => {});
    return stdin;
  }
}
