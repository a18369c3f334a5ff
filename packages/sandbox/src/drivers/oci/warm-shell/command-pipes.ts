import { closeSync, constants, lchownSync, openSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { makeFifo } from "../../../kernel/files.ts";

const { O_RDONLY, O_RDWR, O_WRONLY, O_NONBLOCK } = constants;
/** Opens the path only, and neither end of the pipe. */
const O_PATH = 0x20_0000;

/** Suffixes of the names: stdin, stdout, stderr. */
const kinds = ["i", "o", "e"] as const;

/**
 * Three named pipes for one command, so that its background processes never write into the output
 * of a later command. They lose their names as soon as the command has opened them. Opening them
 * never blocks, because the server holds the other ends from the beginning.
 */
export class CommandPipes {
  readonly #base: string;
  /** The server's ends until `connect` makes streams of them. */
  #ends: [stdin: number, stdout: number, stderr: number] | undefined;
  /** Path descriptor of stdin, which also works without its name. */
  #stdin: number | undefined;

  /**
   * Creates `<name>.i`, `.o` and `.e` in a folder that only the server can change. `owner`: the
   * user in the sandbox (host ids).
   */
  constructor(folder: string, name: string, owner: { uid: number; gid: number }) {
    this.#base = join(folder, name);
    const opened: number[] = [];
    try {
      for (const kind of kinds) {
        makeFifo(this.#path(kind), 0o600);
        lchownSync(this.#path(kind), owner.uid, owner.gid);
        // O_RDWR, because opening the write end alone fails without a reader.
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

  /** Called once the command has opened all three pipes. Each then ends with its last user. */
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
   * Called periodically once stdin has ended: a process that opens `/dev/stdin` only then would
   * wait forever for a writer, and now reads the end of file.
   */
  wakeReaders(): void {
    try {
      closeSync(openSync(`/proc/self/fd/${this.#stdin}`, O_WRONLY | O_NONBLOCK));
    } catch {
      // No process has it open.
    }
  }

  /** Releases all but the connected pipes. A command can no longer open its pipes. */
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
