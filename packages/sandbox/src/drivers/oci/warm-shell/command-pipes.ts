import { closeSync, constants, lchownSync, openSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { makeFifo } from "../../../kernel/fifo.ts";

const { O_RDONLY, O_RDWR, O_WRONLY, O_NONBLOCK } = constants;
/** Of Linux; opens a place in the file system, and neither end of the pipe. */
const O_PATH = 0x20_0000;

/** Ends of the names: stdin, stdout, stderr. */
const kinds = ["i", "o", "e"] as const;

/**
 * Three named pipes for one command. They are the command's own, so that what it leaves in the background never writes into a later one's
 * output, and they lose their names as soon as the command has opened them.
 * Opening them never blocks: the server holds the other ends from the beginning.
 */
export class CommandPipes {
  readonly #base: string;
  /** Our ends as long as they are not streams. */
  #ends: [stdin: number, stdout: number, stderr: number] | undefined;
  /** Where stdin is, also when it has lost its name. */
  #stdin: number | undefined;

  /** Makes the pipes `<name>.i`, `.o` and `.e` in a folder that only the server can change, for a user of the sandbox (host ids). */
  constructor(folder: string, name: string, owner: { uid: number; gid: number }) {
    this.#base = join(folder, name);
    const opened: number[] = [];
    try {
      for (const kind of kinds) {
        makeFifo(this.#path(kind), 0o600);
        lchownSync(this.#path(kind), owner.uid, owner.gid);
        // A reader alone would not let anyone open stdin for reading; a writer alone cannot be opened.
        opened.push(openSync(this.#path(kind), (kind === "i" ? O_RDWR : O_RDONLY) | O_NONBLOCK));
      }
      this.#stdin = openSync(this.#path("i"), O_PATH);
      this.#ends = opened as [number, number, number];
    } catch (error) {
      for (const fd of opened) closeSync(fd);
      this.#unlink();
      throw error;
    }
  }

  /** To be called once the command has opened all three. From now on each pipe ends with its last user. Throws what `open` throws. */
  connect(): { stdin: Socket; stdout: Socket; stderr: Socket } {
    if (!this.#ends) throw new Error("the pipes are closed");
    const [stdin, stdout, stderr] = this.#ends;
    const writing = openSync(this.#path("i"), O_WRONLY | O_NONBLOCK);
    this.#ends = undefined;
    closeSync(stdin);
    this.#unlink();
    return {
      stdin: new Socket({ fd: writing, readable: false, writable: true }),
      stdout: new Socket({ fd: stdout, readable: true, writable: false }),
      stderr: new Socket({ fd: stderr, readable: true, writable: false }),
    };
  }

  /**
   * To be called from time to time once stdin has ended: who opens `/dev/stdin` only then would wait for a writer for ever, and now finds
   * the end of it.
   */
  wakeReaders(): void {
    try {
      closeSync(openSync(`/proc/self/fd/${this.#stdin}`, O_WRONLY | O_NONBLOCK));
    } catch {
      // Nobody has it open.
    }
  }

  /** Lets go of everything but the connected pipes. A command that has not opened its pipes cannot do it any more. */
  close(): void {
    this.#unlink();
    for (const fd of [this.#stdin, ...(this.#ends ?? [])]) if (fd !== undefined) closeSync(fd);
    this.#ends = this.#stdin = undefined;
  }

  #path(kind: (typeof kinds)[number]): string {
    return `${this.#base}.${kind}`;
  }

  #unlink(): void {
    for (const kind of kinds) rmSync(this.#path(kind), { force: true });
  }
}
