import { randomBytes } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExitStatus, SandboxProcess } from "../../driver.ts";
import type { Sandbox } from "../../sandbox.ts";
import { type HeldCall, readCall } from "../held/held-call.ts";
import { type HeldProcess, openHeldShell } from "../held/held-shell.ts";
import { Capture, type Captured } from "./capture.ts";
import { TerminalCleaner } from "./cleaner.ts";
import { type Marker, MarkerScanner, type ShellStatus, toCommandLine } from "./markers.ts";
import { openOverflowFile } from "./overflow-file.ts";
import { checkProcessLimit } from "./process-limit.ts";
import { quoteTyped, quoteWord } from "./quote.ts";
import { toRestoreCommand } from "./shell-state.ts";

export interface ShellOptions {
  /** The initial directory and its fallback. */
  workingDirs: [string, string];
  env: Record<string, string>;
  /** Folder in the sandbox for long outputs. */
  outputDir: string;
  /** File in the sandbox with the state of an earlier shell (see `shell-state.ts`). */
  stateFile: string | undefined;
  /** Makes the shell a held shell, which outlives the server. */
  held?: HeldOptions | undefined;
}

export interface HeldOptions {
  folder: string;
  /** Epoch of the conversation's owner. */
  epoch: number;
  /** Replaces an idle shell of an earlier terminal by a new shell with the same state. */
  isOutdated?: boolean;
}

/** Why a wait ended. `lost`: the connection to a held shell is lost, and the shell may go on. */
export type WaitResult = "begun" | "ended" | "died" | "lost" | "time" | "quiet" | "aborted";

export interface WaitLimits {
  timeMs?: number | undefined;
  /** Time without output, ms. */
  quietMs?: number | undefined;
  /** Also ends when the shell begins the command. */
  begin?: boolean;
  signal?: AbortSignal | undefined;
}

/** Maximum length of `earlierOutput`, characters. */
const maxEarlierChars = 100_000;
const size = { cols: 200, rows: 50 };
/** Limit of startup files, ms; then the shell starts without them. */
const startTimeoutMs = 10_000;
/** Limit of kept background output between commands, characters. */
const maxIdleChars = 4_000;
/** Unread characters after which the program is paused. */
const maxUnreadChars = 1_000_000;

/**
 * bash, else sh. Without a line editor, so that typed input reaches the shell unchanged. A held
 * shell begins its session with the words of `_sandpiper_session`.
 */
const startScript =
  'cd -- "$1" 2>/dev/null || cd -- "$2" 2>/dev/null; command -v bash >/dev/null 2>&1 && exec $_sandpiper_session bash --noediting $3 -i; exec $_sandpiper_session /bin/sh -i';
const initCommand =
  'unset PS0 PS1 PROMPT_COMMAND; set -o ignoreeof; if [ "$BASH_VERSION" ]; then set +o history +H; unset HISTFILE; printf bash; fi';

/** A shell process on a terminal of a sandbox that runs one command at a time. */
export class Shell {
  /** Status after the last command. */
  status: ShellStatus = { shellPid: 0, exitCode: 0, jobPid: -1, workingDir: "", python: undefined };
  running: string | undefined;
  /** Id of the running or the last command. */
  callId: string | undefined;
  /** Time at which the command `callId` began (monotonic clock, ms). */
  runsSince = 0;
  /** True once the shell has begun the command. */
  started = false;
  ended: ExitStatus | undefined;
  /** The connection to the held shell is lost. Another client can join the shell. */
  isLost = false;
  /** An earlier client has used the shell. */
  isJoined = false;
  /** The command that a call of an earlier client left running. It may have ended since. */
  leftCommand: string | undefined;
  /** The last output of the command from before this client joined the shell. */
  earlierOutput = "";
  /** Length of all output of the command from before this client joined the shell, characters. */
  earlierLength = 0;
  readonly #process: SandboxProcess & Partial<HeldProcess>;
  readonly #newCapture: () => Capture;
  readonly #nonce: string;
  readonly #scanner: MarkerScanner;
  /** State folder of a held shell; undefined for another shell. */
  readonly #record: string | undefined;
  /** Gets the output of the running command. */
  onOutput: ((text: string) => void) | undefined;
  readonly #trace: RegExp;
  #cleaner = new TerminalCleaner();
  #capture: Capture;
  #idle = "";
  #number = 0;
  #bash = false;
  /** The terminal's line may contain keys without Enter. */
  #openLine = false;
  #unread = 0;
  /** The process is gone; the rest of its output follows. */
  #exiting = false;
  #waiting: ((event: "output" | "ended" | "died" | "lost") => void) | undefined;
  readonly #holds = new Set<"overflow" | "unread">();

  private constructor(
    sandbox: Sandbox,
    process: SandboxProcess & Partial<HeldProcess>,
    options: ShellOptions,
    nonce: string,
  ) {
    const { outputDir, held } = options;
    this.#process = process;
    this.#nonce = nonce;
    this.#record = held?.folder;
    this.#scanner = new MarkerScanner(nonce);
    this.#trace = new RegExp(`^\\++ .*${nonce}.*\\n?`, "gm");
    const overflow = () =>
      openOverflowFile(
        sandbox,
        outputDir,
        () => this.#hold("overflow"),
        () => this.#release("overflow"),
      );
    this.#newCapture = () => new Capture(overflow);
    this.#capture = this.#newCapture();
    process.stdout.on("data", (chunk: Buffer) => this.#read(chunk));
    process.stdout.on("error", () => {});
    process.stdin.on("error", () => {});
    process.stderr.resume();
    const readOut = new Promise((resolve) => process.stdout.once("close", resolve));
    process.exit.then(async (exit) => {
      this.#exiting = true;
      this.#holds.clear();
      process.stdout.resume();
      await readOut;
      this.#end(exit);
    });
    void process.lost?.then(() => {
      this.isLost = true;
      this.#waiting?.("lost");
    });
  }

  /**
   * Opens or joins the held shell of the options. Where the sandbox cannot hold a terminal, opens a
   * shell that ends with the server. Throws SandboxFailed when the sandbox has no working shell or
   * no room for its processes, CommandFenced, or the signal's reason.
   */
  static async open(sandbox: Sandbox, options: ShellOptions, signal: AbortSignal): Promise<Shell> {
    let held = options.held;
    for (const startupFiles of ["", "--norc"]) {
      const opened = held && (await Shell.#openHeld(sandbox, { ...options, held }, startupFiles));
      if (opened?.isJoined) return opened;
      if (!opened) held = undefined;
      const shell = opened ?? (await Shell.#start(sandbox, { ...options, held }, startupFiles));
      shell.start(
        options.stateFile === undefined
          ? initCommand
          : `${initCommand}; ${toRestoreCommand(options.stateFile)}`,
      );
      const waited = await shell.wait({ timeMs: startTimeoutMs, signal });
      if (waited === "ended") {
        shell.#bash = (await shell.take()).text.includes("bash");
        return shell;
      }
      if (waited === "lost") return Shell.open(sandbox, options, signal);
      await shell.kill();
      signal.throwIfAborted();
      if (waited === "died") break;
    }
    await checkProcessLimit(sandbox);
    throw new PlatformError("NoShell");
  }

  /** Starts a shell that ends with the server. */
  static async #start(sandbox: Sandbox, options: ShellOptions, startupFiles: string): Promise<Shell> {
    const { start, env } = toStartCommand(options, startupFiles);
    const [script, ...words] = start;
    const argv = ["/bin/sh", "-c", script!, "sh", ...words];
    const process = await sandbox.exec({ argv, env, cwd: "/", tty: size });
    return new Shell(sandbox, process, options, randomBytes(12).toString("hex"));
  }

  /** Opens or joins a held shell. Returns undefined when the sandbox cannot hold a terminal. */
  static async #openHeld(
    sandbox: Sandbox,
    options: ShellOptions & { held: HeldOptions },
    startupFiles: string,
  ): Promise<Shell | undefined> {
    const { held } = options;
    const { start, env } = toStartCommand(options, startupFiles);
    const opened = await openHeldShell(sandbox, { ...held, start, env, size });
    if (!opened) return undefined;
    const shell = new Shell(sandbox, opened.process, options, opened.nonce);
    if (opened.history) {
      const call = await readCall(sandbox, held.folder);
      if (!call) {
        // The shell has not even begun its first command, so it does not work.
        await shell.kill();
        return Shell.#openHeld(sandbox, options, startupFiles);
      }
      shell.#join(call, opened.history);
    }
    opened.process.stdout.resume();
    // The earlier server ended while the shell ran its first command, which sets it up.
    if (shell.isJoined && shell.#number === 1) {
      await shell.wait({ timeMs: startTimeoutMs });
      await shell.take();
    }
    return shell;
  }

  /** Takes over the last command of a shell that an earlier client has used. */
  #join({ number, id, isBash, text, ageMs, wasLeft }: HeldCall, history: Buffer): void {
    this.isJoined = true;
    this.#bash = isBash;
    this.#number = number;
    this.callId = id;
    this.runsSince = performance.now() - ageMs;
    this.running = text;
    if (wasLeft) this.leftCommand = text;
    const start = history.lastIndexOf(`${this.#nonce}:S${number}:`);
    // The history lacks the start marker when the part with it was removed.
    if (start < 0) this.started = true;
    this.onOutput = (output) => {
      this.earlierOutput = (this.earlierOutput + output).slice(-maxEarlierChars);
      this.earlierLength += output.length;
    };
    this.#read(start < 0 ? history : history.subarray(start));
    this.onOutput = undefined;
  }

  /**
   * Types a command, or makes the shell read it from a file and remove that. No other command may
   * be running. Returns whether background output precedes the command's own. A held shell runs the
   * command of a `callId` (word characters) once.
   */
  start(command: string, file?: string, callId = `s${this.#number + 1}`): boolean {
    this.#idle += this.#removeTrace(this.#cleaner.flush());
    this.#capture = this.#newCapture();
    const early = this.#idle.trim() !== "";
    if (early) this.#capture.add(this.#idle.endsWith("\n") ? this.#idle : `${this.#idle}\n`);
    this.#idle = "";
    this.running = command;
    this.started = false;
    this.#number += 1;
    this.callId = callId;
    this.runsSince = performance.now();
    const record = this.#record === undefined ? undefined : { id: callId, folder: this.#record };
    // C-u drops typed keys without Enter.
    const word =
      file === undefined
        ? quoteTyped(command, this.#bash)
        : `"$(/bin/cat ${quoteWord(file)}; /bin/rm -f ${quoteWord(file)})"`;
    const { exitCode } = this.status;
    const line = toCommandLine(this.#nonce, this.#number, word, this.#bash, exitCode, record);
    this.#process.stdin.write(this.#openLine ? `\x15${line}` : line);
    this.#openLine = false;
    return early;
  }

  /** Types characters into the running program. */
  send(characters: string): void {
    this.#openLine = !/[\r\n\x03\x1a]$/.test(characters);
    this.#process.stdin.write(characters);
  }

  /** Waits for the end of the command within the limits. */
  wait(limits: WaitLimits): Promise<WaitResult> {
    const { promise, resolve } = Promise.withResolvers<WaitResult>();
    this.#unread = 0;
    this.#release("unread");
    if (this.ended) return Promise.resolve("died");
    if (this.running === undefined) return Promise.resolve("ended");
    if (this.isLost) return Promise.resolve("lost");
    if (limits.begin && this.started) return Promise.resolve("begun");
    if (limits.signal?.aborted) return Promise.resolve("aborted");
    const aborted = () => resolve("aborted");
    const time = limits.timeMs === undefined ? undefined : setTimeout(resolve, limits.timeMs, "time");
    const quiet = limits.quietMs === undefined ? undefined : setTimeout(resolve, limits.quietMs, "quiet");
    limits.signal?.addEventListener("abort", aborted);
    this.#waiting = (event) => {
      if (event !== "output") resolve(event);
      else if (limits.begin && this.started) resolve("begun");
      else quiet?.refresh();
    };
    return promise.finally(() => {
      clearTimeout(time);
      clearTimeout(quiet);
      limits.signal?.removeEventListener("abort", aborted);
      this.#waiting = undefined;
    });
  }

  /** The output since the last call. */
  take(): Promise<Captured> {
    this.#keep(this.#cleaner.flush());
    const capture = this.#capture;
    this.#capture = this.#newCapture();
    return capture.end();
  }

  /** Ends the shell and its running command. Resolves when both have ended. */
  async kill(): Promise<void> {
    if (this.ended) return;
    this.#process.kill();
    if (this.#record !== undefined) await this.#process.exit;
  }

  /** Leaves a held shell to the next client. Kills another shell. */
  leave(): void {
    if (this.#record === undefined) void this.kill();
    else this.#process.detach?.();
  }

  #read(chunk: Buffer): void {
    for (const part of this.#scanner.push(chunk)) {
      if (Buffer.isBuffer(part)) this.#text(this.#cleaner.push(part));
      else this.#mark(part);
    }
    this.#waiting?.("output");
  }

  #text(text: string): void {
    if (this.running === undefined) this.#idle = (this.#idle + this.#removeTrace(text)).slice(-maxIdleChars);
    else this.#keep(text);
    if (this.#waiting) return;
    this.#unread += text.length;
    if (this.#unread > maxUnreadChars) this.#hold("unread");
  }

  /** Adds command output; output before the start marker is the echo of the typed line. */
  #keep(text: string): void {
    if (!this.started) return;
    const output = this.#removeTrace(text);
    this.#capture.add(output);
    this.onOutput?.(output);
  }

  /** Removes the trace of `set -x` for the markers. */
  #removeTrace(text: string): string {
    return text.includes(this.#nonce) ? text.replace(this.#trace, "") : text;
  }

  #mark(marker: Marker): void {
    if (this.running === undefined || marker.number !== this.#number) return;
    if (marker.kind === "start") {
      this.started = true;
      this.#cleaner = new TerminalCleaner();
    } else if (this.started && [0, marker.status.shellPid].includes(this.status.shellPid))
      this.#done(marker.status);
  }

  #done(status: ShellStatus): void {
    this.#keep(this.#cleaner.flush());
    this.status = { ...status, python: status.python ?? this.status.python };
    this.running = undefined;
    this.#waiting?.("ended");
  }

  #end(exit: ExitStatus): void {
    this.#text(this.#cleaner.push(this.#scanner.flush()));
    this.ended = exit;
    this.#waiting?.("died");
  }

  #hold(reason: "overflow" | "unread"): void {
    if (this.#exiting) return;
    this.#holds.add(reason);
    this.#process.stdout.pause();
  }

  #release(reason: "overflow" | "unread"): void {
    if (this.#holds.delete(reason) && this.#holds.size === 0) this.#process.stdout.resume();
  }
}

function toStartCommand({ workingDirs, env }: ShellOptions, startupFiles: string) {
  return {
    start: [startScript, ...workingDirs, startupFiles],
    env: { TERM: "dumb", PAGER: "cat", GIT_PAGER: "cat", ...env },
  };
}
