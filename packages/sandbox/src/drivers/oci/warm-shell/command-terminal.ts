import { closeSync } from "node:fs";
import { Readable, type Writable } from "node:stream";
import { ReadStream } from "node:tty";
import { duplicateDescriptor } from "../../../kernel/descriptors.ts";
import { openPseudoTerminal, resizePseudoTerminal, type TtySize } from "../../../kernel/pseudo-terminal.ts";
import { makeTerminalInput } from "../container/terminal-input.ts";

/** A terminal in a sandbox for one command. The server reads its output and writes its input. */
export class CommandTerminal {
  /** Its path in the sandbox. */
  readonly path: string;
  #master: number | undefined;
  /** Until the command has opened the terminal; without it the terminal would hang up. */
  #slave: number | undefined;
  #resize: ((size: TtySize) => void) | undefined;
  /**
   * A second descriptor of the server's side, which keeps the terminal until the command ends. A
   * program that closes the terminal before it ends would otherwise be killed by the hang-up.
   */
  #hold: number | undefined;

  /** `root`: the sandbox's root folder; `uid`: its user (host id). Throws what opening throws. */
  constructor(root: string, uid: number, size: TtySize) {
    const { master, slave, path } = openPseudoTerminal(root, uid, size);
    this.#master = master;
    this.#slave = slave;
    this.path = path;
  }

  /** Called once the command has opened the terminal. */
  connect(): { stdin: Writable; stdout: Readable; stderr: Readable } {
    const master = this.#master;
    if (master === undefined) throw new Error("the terminal is closed");
    this.#release();
    // It closes the descriptor.
    const source = new ReadStream(master);
    this.#master = undefined;
    this.#hold = duplicateDescriptor(master);
    let hasEnded = false;
    source.once("error", () => (hasEnded = true));
    // Whoever destroys the output hangs up.
    source.once("close", () => !hasEnded && this.#letGo());
    const isOpen = () => !source.destroyed;
    const stdin = makeTerminalInput(master, isOpen, Promise.resolve());
    this.#resize = (size) => isOpen() && resizePseudoTerminal(master, size);
    return { stdin, stdout: source, stderr: Readable.from([]) };
  }

  resize(size: TtySize): void {
    this.#resize?.(size);
  }

  /** Called when the command has ended or will not run: hangs up. */
  close(): void {
    this.#release();
    this.#letGo();
    if (this.#master !== undefined) closeSync(this.#master);
    this.#master = undefined;
  }

  #letGo(): void {
    if (this.#hold !== undefined) closeSync(this.#hold);
    this.#hold = undefined;
  }

  #release(): void {
    if (this.#slave !== undefined) closeSync(this.#slave);
    this.#slave = undefined;
  }
}
