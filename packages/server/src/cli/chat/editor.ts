import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from "node:readline";
import { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { PasteReader } from "./paste.ts";

/** A message, and the texts in it that were pasted. */
export interface MessageInput {
  kind: "message";
  text: string;
  pasted: readonly string[];
}

/** What a person does at the prompt. `end`: Ctrl-D, or the terminal is gone. */
export type Input = MessageInput | { kind: "interrupt" } | { kind: "end" };

export interface EditorOptions {
  /** Earlier lines, the newest first. */
  history: string[];
  /** The words that complete the end of a line, and that end. */
  complete: (line: string) => [string[], string];
  onInput: (input: Input) => void;
}

/** Lines of history. */
const historySize = 1_000;

const pasteOn = "\x1b[?2004h";
const pasteOff = "\x1b[?2004l";

/** The keys of the terminal, without pasted text. */
class Keys extends Readable {
  setRawMode(on: boolean): this {
    process.stdin.setRawMode(on);
    return this;
  }

  override _read(): void {}
}

/**
 * A line editor at the bottom of the terminal, with history; other output appears above it. A line
 * that ends with a backslash goes on, and a pasted text stays one message, which only a person
 * submits.
 */
export class Editor {
  readonly #options: EditorOptions;
  #terminal: Interface | undefined;
  #keys = new Keys();
  #decoder = new StringDecoder();
  #paste = new PasteReader();
  #history: string[];
  #prompt = "> ";
  /** Lines of the message before the current one. */
  #lines: string[] = [];
  #pasted: string[] = [];
  #pastes = false;

  constructor(options: EditorOptions) {
    this.#options = options;
    this.#history = options.history;
    this.#open();
  }

  /** The newest line first. */
  get history(): readonly string[] {
    return this.#history;
  }

  /** Prints above the prompt. */
  print(...lines: string[]): void {
    const terminal = this.#terminal;
    if (terminal) {
      moveCursor(process.stdout, 0, -terminal.getCursorPos().rows);
      cursorTo(process.stdout, 0);
      clearScreenDown(process.stdout);
    }
    if (lines.length > 0) process.stdout.write(`${lines.join("\n")}\n`);
    terminal?.prompt(true);
  }

  setPrompt(prompt: string): void {
    this.#prompt = prompt;
    if (this.#lines.length > 0) return;
    this.#terminal?.setPrompt(prompt);
    this.print();
  }

  /** Leaves the terminal to `work`. */
  async without<T>(work: () => Promise<T>): Promise<T> {
    this.#close();
    try {
      return await work();
    } finally {
      this.#open();
    }
  }

  close(): void {
    this.#close();
  }

  #open(): void {
    this.#keys = new Keys();
    this.#keys.on("keypress", this.#onKey);
    this.#decoder = new StringDecoder();
    this.#paste = new PasteReader();
    const terminal = createInterface({
      input: this.#keys,
      output: process.stdout,
      terminal: true,
      prompt: this.#prompt,
      history: [...this.#history],
      historySize,
      removeHistoryDuplicates: true,
      completer: (line: string) => this.#options.complete(line),
    });
    terminal.on("history", (history: string[]) => {
      this.#history = [...history];
    });
    terminal.on("line", (line) => this.#onLine(line));
    terminal.on("SIGINT", () => this.#onInterrupt());
    terminal.on("close", () => {
      if (this.#terminal === terminal) this.#options.onInput({ kind: "end" });
    });
    // The terminal is gone: SIGHUP ends the session.
    terminal.on("error", () => {});
    this.#terminal = terminal;
    process.stdin.on("data", this.#onData);
    process.stdin.on("end", this.#onEnd);
    process.stdin.resume();
    process.stdout.write(pasteOn);
    terminal.prompt();
  }

  #close(): void {
    const terminal = this.#terminal;
    this.#terminal = undefined;
    process.stdin.off("data", this.#onData);
    process.stdin.off("end", this.#onEnd);
    process.stdin.pause();
    terminal?.close();
    process.stdout.write(`${pasteOff}\r\x1b[K`);
  }

  #onLine(line: string): void {
    const goesOn = !this.#pastes && line.endsWith("\\");
    this.#lines.push(goesOn ? line.slice(0, -1) : line);
    if (goesOn || this.#pastes) {
      this.#terminal?.setPrompt("… ");
      this.#terminal?.prompt();
      return;
    }
    const text = this.#lines.join("\n").trim();
    const pasted = this.#pasted;
    this.#clear();
    this.#terminal?.setPrompt(this.#prompt);
    this.#terminal?.prompt();
    if (text) this.#options.onInput({ kind: "message", text, pasted });
  }

  /** Ctrl-C first clears what is being typed. */
  #onInterrupt(): void {
    const terminal = this.#terminal;
    if (!terminal) return;
    if (terminal.line === "" && this.#lines.length === 0) this.#options.onInput({ kind: "interrupt" });
    this.#clear();
    terminal.setPrompt(this.#prompt);
    // Ctrl-E, Ctrl-U: the line that was typed goes.
    terminal.write(null, { ctrl: true, name: "e" });
    terminal.write(null, { ctrl: true, name: "u" });
    terminal.prompt();
  }

  #clear(): void {
    this.#lines = [];
    this.#pasted = [];
  }

  readonly #onData = (data: Buffer | string): void => {
    const piece = typeof data === "string" ? data : this.#decoder.write(data);
    for (const { kind, text } of this.#paste.take(piece)) {
      // A key may have closed the editor.
      if (!this.#terminal) return;
      if (kind === "keys") this.#keys.emit("data", text);
      else this.#insert(text);
    }
  };

  readonly #onEnd = (): void => this.#terminal?.close();

  /** Puts a text at the cursor, as if it was typed, with its lines. */
  #insert(text: string): void {
    this.#pasted.push(text);
    this.#pastes = true;
    this.#terminal?.write(text);
    this.#pastes = false;
  }

  /** A mark that the terminal sent in two pieces, the first of them a lone Escape. */
  readonly #onKey = (_text: string | undefined, key: { name?: string } | undefined): void => {
    if (key?.name === "paste-start") this.#pastes = true;
    else if (key?.name === "paste-end") this.#pastes = false;
  };
}
