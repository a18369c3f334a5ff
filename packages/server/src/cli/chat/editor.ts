import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from "node:readline";

/** What a person does at the prompt. `end`: Ctrl-D, or the terminal is gone. */
export type Input = { kind: "message"; text: string } | { kind: "interrupt" } | { kind: "end" };

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

/**
 * A line editor at the bottom of the terminal, with history; other output appears above it. A line
 * that ends with a backslash goes on, and a pasted text stays one message.
 */
export class Editor {
  readonly #options: EditorOptions;
  #terminal: Interface | undefined;
  #history: string[];
  #prompt = "> ";
  /** Lines of the message before the current one. */
  #lines: string[] = [];
  #pastes = false;

  constructor(options: EditorOptions) {
    this.#options = options;
    this.#history = options.history;
    process.stdin.on("keypress", this.#onKey);
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
    process.stdin.off("keypress", this.#onKey);
    process.stdin.pause();
  }

  #open(): void {
    const terminal = createInterface({
      input: process.stdin,
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
    this.#terminal = terminal;
    process.stdout.write(pasteOn);
    terminal.prompt();
  }

  #close(): void {
    const terminal = this.#terminal;
    this.#terminal = undefined;
    terminal?.close();
    process.stdout.write(`${pasteOff}\r\x1b[K`);
  }

  #onLine(line: string): void {
    const goesOn = line.endsWith("\\");
    this.#lines.push(goesOn ? line.slice(0, -1) : line);
    if (goesOn || this.#pastes) {
      this.#terminal?.setPrompt("… ");
      this.#terminal?.prompt();
      return;
    }
    const text = this.#lines.join("\n").trim();
    this.#lines = [];
    this.#terminal?.setPrompt(this.#prompt);
    this.#terminal?.prompt();
    if (text) this.#options.onInput({ kind: "message", text });
  }

  /** Ctrl-C first clears what is being typed. */
  #onInterrupt(): void {
    const terminal = this.#terminal;
    if (!terminal) return;
    if (terminal.line === "" && this.#lines.length === 0) this.#options.onInput({ kind: "interrupt" });
    this.#lines = [];
    terminal.setPrompt(this.#prompt);
    // Ctrl-E, Ctrl-U: the line that was typed goes.
    terminal.write(null, { ctrl: true, name: "e" });
    terminal.write(null, { ctrl: true, name: "u" });
    terminal.prompt();
  }

  readonly #onKey = (_text: string | undefined, key: { name?: string } | undefined): void => {
    if (key?.name === "paste-start") this.#pastes = true;
    else if (key?.name === "paste-end") this.#pastes = false;
  };
}
