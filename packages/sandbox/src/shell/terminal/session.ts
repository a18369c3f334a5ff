import type { TerminalAction, TerminalObservation } from "@sandpiper/wire";
import { writeFile } from "../../files/files.ts";
import type { Sandbox } from "../../sandbox.ts";
import { hasBegun, noteLeft } from "../held/held-call.ts";
import { endHeldShell } from "../held/held-shell.ts";
import { maxTypedBytes, writeLongCommand } from "./command-file.ts";
import { CommandInterrupted } from "./command-interrupted.ts";
import { hasNoJobs, saveShell } from "./idle-shell.ts";
import { interruptCommand } from "./interrupt-command.ts";
import { checkRepeatable, joinShell } from "./join-shell.ts";
import { toInputCharacters, toKeyCharacters } from "./keys.ts";
import { notes, type TerminalOutcome, toRefusal, toTerminalObservation } from "./observation.ts";
import { findRefusal } from "./refusal.ts";
import { type HeldOptions, Shell } from "./shell.ts";
import { ShellLost, serveThroughLosses } from "./shell-lost.ts";
import { toChangeDirectory } from "./shell-state.ts";
import type { TerminalCall } from "./terminal-call.ts";
import { judgeWait } from "./verdict.ts";

export interface TerminalSessionOptions {
  cwd: string;
  env: Record<string, string>;
  /** As in `TerminalOptions`. */
  quietMs: number;
  longestMs: number;
  outputDir: string;
  stateFile?: string | undefined;
  held?: HeldOptions | undefined;
}

/** Limit for an idle shell to save its state, ms. */
const saveTimeoutMs = 5_000;
/** The same while a stop of the sandbox or a command waits for the shell, ms. */
const hastyTimeoutMs = 600;

/** A persistent shell and the rules of its use by the agent (agent-behaviour.md section 13). */
export class TerminalSession {
  readonly #sandbox: Sandbox;
  readonly #options: TerminalSessionOptions;
  #shell: Shell | undefined;
  #workingDir: string;
  #queue: Promise<unknown> = Promise.resolve();
  /** Pending calls. */
  #calls = 0;
  /** An earlier session may have saved a state. */
  #inherits = true;
  /** A call of this session or of an earlier one has used the shell. */
  #used = false;
  #closed = false;
  restsSince = performance.now();
  /** Of the current call. */
  #onOutput: ((text: string) => void) | undefined;
  /** Length of the output that `#onOutput` has got, characters. */
  #shown = 0;
  /** An interrupt ended the shell, and no call has reported it. */
  #lost = false;
  /** Id of an ended command of an earlier session whose output no call has taken. */
  #unseen: string | undefined;
  /** The command that the last call left running. */
  #leftRunning: string | undefined;
  /** The end of such a command, which no call has reported. */
  #unreported: (TerminalOutcome & { command: string }) | undefined;

  constructor(sandbox: Sandbox, options: TerminalSessionOptions) {
    this.#sandbox = sandbox;
    this.#options = options;
    this.#workingDir = options.cwd;
  }

  run(
    action: TerminalAction,
    signal: AbortSignal,
    onOutput?: (text: string) => void,
    call?: TerminalCall,
  ): Promise<TerminalObservation> {
    return this.#enqueue(async () => {
      signal.throwIfAborted();
      this.#used = true;
      this.#shown = 0;
      this.#onOutput = (text) => {
        this.#shown += text.length;
        onOutput?.(text);
      };
      const serve = (one: TerminalCall | undefined) => this.#serve(action, signal, one);
      return this.#observe(action, await serveThroughLosses(action, call, serve));
    });
  }

  prepare(signal: AbortSignal): Promise<void> {
    return this.#enqueue(async () => {
      signal.throwIfAborted();
      if (this.#closed || this.#shell || !this.#inherits) return;
      const { held } = this.#options;
      if (held) await this.#join(held, signal, undefined);
      else this.#shell = await this.#open(signal);
    });
  }

  /** A command runs in the foreground. */
  get isBusy(): boolean {
    const { ended, isLost, running } = this.#shell ?? {};
    return this.#calls > 0 || (!ended && !isLost && running !== undefined);
  }

  get isLive(): boolean {
    return this.isBusy || (this.#used && this.#shell !== undefined && !this.#shell.ended);
  }

  async saveState(): Promise<void> {
    const { stateFile } = this.#options;
    const shell = this.#shell;
    if (stateFile === undefined || !shell || shell.ended) return;
    const isSaved = !this.isBusy && (await this.#enqueue(() => this.#save(shell, hastyTimeoutMs)));
    if (!isSaved) await writeFile(this.#sandbox, stateFile, toChangeDirectory(this.#workingDir));
  }

  endResting(): Promise<boolean> {
    return this.#enqueue(async () => {
      const shell = this.#shell;
      const isWanted = () => this.#calls > 1 || this.#closed;
      if (!shell || shell.ended || shell.running !== undefined || isWanted()) return false;
      await this.#settle();
      if (!(await hasNoJobs(shell)) || !(await this.#save(shell, saveTimeoutMs)) || isWanted()) return false;
      await this.#replace(shell);
      return true;
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    const shell = this.#shell;
    this.#shell = undefined;
    await shell?.kill();
  }

  leave(): void {
    this.#closed = true;
    if (this.#used) this.#shell?.leave();
    else void this.#shell?.kill();
    this.#shell = undefined;
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    this.#calls += 1;
    const result = this.#queue.then(work).finally(() => {
      this.#calls -= 1;
      this.restsSince = performance.now();
    });
    this.#queue = result.catch(() => {});
    return result;
  }

  async #serve(
    action: TerminalAction,
    signal: AbortSignal,
    call: TerminalCall | undefined,
  ): Promise<TerminalOutcome> {
    if (this.#closed) throw new Error("The terminal is closed.");
    if (action.reset) return this.#reset(action, signal);
    const { held } = this.#options;
    if (this.#shell?.isLost) {
      this.#shell = undefined;
      this.#inherits = true;
    }
    if (this.#inherits && held) {
      if (await this.#join(held, signal, call)) return this.#continue(this.#shell!, action, signal);
    } else if (call?.isRepeated) {
      const shell = this.#shell?.callId === call.id ? this.#shell : undefined;
      const isKept = shell?.running !== undefined || this.#unseen === call.id;
      if (!shell || shell.ended || !isKept) throw new CommandInterrupted({ text: "" });
      return this.#continue(shell, action, signal);
    }
    this.#unseen = undefined;
    await this.#settle();
    const running = this.#shell?.ended ? undefined : this.#shell?.running;
    if (running !== undefined) return this.#follow(this.#shell!, running, action, signal);
    const poll = !action.command.trim();
    if (action.is_input || poll || toKeyCharacters(action.command) !== undefined)
      return this.#reportEnd({ sent: !poll });
    const reason = findRefusal(action.command);
    if (reason) return toRefusal(reason);
    return this.#command(action, signal, call?.id);
  }

  /**
   * Opens the first shell of the session, or joins the shell of an earlier session. Returns true
   * when that shell runs or has run the command of the call.
   */
  async #join(held: HeldOptions, signal: AbortSignal, call: TerminalCall | undefined): Promise<boolean> {
    const [sandbox, { outputDir }] = [this.#sandbox, this.#options];
    if (call?.isRepeated) await checkRepeatable(sandbox, { folder: held.folder, id: call.id, outputDir });
    const open = () => this.#open(signal);
    const shell = await joinShell(sandbox, { folder: held.folder, open, call, signal });
    this.#shell = shell;
    // The shell that may have begun the command has ended since `checkRepeatable`.
    if (!shell.isJoined && call?.isRepeated) throw new CommandInterrupted({ text: "" });
    if (!shell.isJoined) return false;
    this.#used = true;
    if (call && shell.callId === call.id) return true;
    const left = shell.running ?? shell.leftCommand;
    if (left !== undefined) this.#leftRunning = left;
    else if (call?.isRepeated) this.#unseen = shell.callId;
    else await shell.take();
    // The shell may have begun a later command before the server stored the result of this one.
    if (call?.isRepeated && (await hasBegun(sandbox, held.folder, call.id)))
      throw new CommandInterrupted({ text: "" });
    if (held.isOutdated && shell.running === undefined) {
      await this.#save(shell, hastyTimeoutMs);
      await this.#replace(shell);
    }
    return false;
  }

  /** Saves the state of an idle shell. Returns false when the shell does not answer in time. */
  async #save(shell: Shell, timeMs: number): Promise<boolean> {
    await this.#settle();
    this.#workingDir = shell.status.workingDir || this.#workingDir;
    const { stateFile: file } = this.#options;
    return file !== undefined && saveShell(shell, { file, workingDir: this.#workingDir, timeMs });
  }

  /** Ends a shell. The next shell restores the saved state. */
  async #replace(shell: Shell): Promise<void> {
    await shell.kill();
    this.#shell = undefined;
    this.#inherits = true;
  }

  /** Waits for a command that an earlier call has begun. */
  #continue(shell: Shell, action: TerminalAction, signal: AbortSignal): Promise<TerminalOutcome> {
    this.#unseen = undefined;
    const unseen = shell.earlierLength - this.#shown;
    if (unseen > 0) this.#onOutput?.(shell.earlierOutput.slice(-unseen));
    shell.earlierOutput = "";
    return this.#outcome(shell, action, signal, "", { ranMs: performance.now() - shell.runsSince });
  }

  /** Records the end of a command that a call left running. */
  async #settle(): Promise<void> {
    const shell = this.#shell;
    if (this.#leftRunning === undefined || !shell || (shell.running !== undefined && !shell.ended)) return;
    const command = this.#leftRunning;
    this.#leftRunning = undefined;
    this.#workingDir = shell.status.workingDir || this.#workingDir;
    const verdict = judgeWait(shell, shell.ended ? "died" : "ended", this.#judging);
    this.#unreported = { command, output: await shell.take(), ...verdict };
  }

  /** Serves a call about a command that has ended since the last call. */
  #reportEnd({ sent }: { sent: boolean }): TerminalOutcome {
    const untold = this.#unreported;
    if (!untold) return toRefusal(notes.idle);
    this.#unreported = undefined;
    const note = sent ? `${untold.note} ${notes.notSent}` : untold.note;
    return { ...untold, prefix: notes.continued(untold.command), note };
  }

  async #reset(action: TerminalAction, signal: AbortSignal): Promise<TerminalOutcome> {
    if (action.is_input)
      throw new Error(
        "reset and is_input cannot be used together: a new shell runs nothing that takes input.",
      );
    const reason = action.command.trim() ? findRefusal(action.command) : undefined;
    if (reason) return toRefusal(reason);
    const { held } = this.#options;
    if (this.#shell) await this.#shell.kill();
    else if (held) await endHeldShell(this.#sandbox, held.folder);
    this.#shell = undefined;
    this.#lost = false;
    this.#leftRunning = undefined;
    this.#unreported = undefined;
    this.#workingDir = this.#options.cwd;
    if (!action.command.trim()) {
      this.#shell = await this.#open(signal);
      return { output: { text: notes.reset }, exitCode: 0, note: "" };
    }
    const outcome = await this.#command(action, signal);
    return { ...outcome, output: { ...outcome.output, text: `${notes.reset}\n${outcome.output.text}` } };
  }

  async #command(action: TerminalAction, signal: AbortSignal, callId?: string): Promise<TerminalOutcome> {
    const renewed = this.#lost || this.#shell?.ended !== undefined;
    if (!this.#shell || renewed) this.#shell = await this.#open(signal);
    this.#lost = false;
    const shell = this.#shell;
    const file = await writeLongCommand(this.#sandbox, this.#options.outputDir, action.command, signal);
    const background = shell.start(action.command, file, callId);
    const untold = this.#unreported;
    this.#unreported = undefined;
    const before = untold ? notes.before(untold.command, untold.output.text, untold.note) : "";
    const prefix = before + (renewed ? notes.renewed : "") + (background ? notes.background : "");
    return this.#outcome(shell, action, signal, prefix);
  }

  /** Serves a call while a command runs: returns more output, or sends input. */
  async #follow(
    shell: Shell,
    running: string,
    action: TerminalAction,
    signal: AbortSignal,
  ): Promise<TerminalOutcome> {
    const { command } = action;
    const key = toKeyCharacters(command) !== undefined;
    const prefix = notes.continued(running);
    if (command !== "" && !action.is_input && !key) {
      if (!command.trim()) return this.#outcome(shell, action, signal, prefix);
      return { output: await shell.take(), exitCode: -1, prefix, note: notes.busy(running), isError: true };
    }
    if (Buffer.byteLength(command) > maxTypedBytes)
      return { ...toRefusal(notes.longInput(maxTypedBytes)), prefix };
    if (command !== "") shell.send(toInputCharacters(command));
    return this.#outcome(shell, action, signal, prefix, { sent: command });
  }

  async #outcome(
    shell: Shell,
    action: TerminalAction,
    signal: AbortSignal,
    prefix: string,
    { sent, ranMs = 0 }: { sent?: string; ranMs?: number } = {},
  ): Promise<TerminalOutcome> {
    const timeout = action.timeout ?? undefined;
    const command = shell.running ?? action.command;
    this.#leftRunning = undefined;
    shell.onOutput = this.#onOutput;
    const limit = timeout === undefined ? this.#options.longestMs : Math.min(timeout * 1000, 2 ** 31 - 1);
    const timeMs = Math.max(0, limit - ranMs);
    const quietMs = timeout === undefined ? this.#options.quietMs : undefined;
    const waited = await shell.wait({ quietMs, timeMs, signal });
    shell.onOutput = undefined;
    if (waited === "aborted" && signal.reason === "shutdown" && this.#options.held) throw signal.reason;
    if (waited === "aborted") {
      await this.#interrupt(shell);
      throw signal.reason;
    }
    if (waited === "lost") throw new ShellLost(await shell.take());
    if (waited !== "died") this.#workingDir = shell.status.workingDir || this.#workingDir;
    if (shell.started && (waited === "time" || waited === "quiet")) await this.#leave(shell, command);
    const output = await shell.take();
    return { output, prefix, ...judgeWait(shell, waited, { ...this.#judging, timeout, sent }) };
  }

  /** Notes that the next call reports the end of the command, also a call at the next server. */
  async #leave(shell: Shell, command: string): Promise<void> {
    this.#leftRunning = command;
    const { held } = this.#options;
    if (held && shell.callId) await noteLeft(this.#sandbox, held.folder, shell.callId).catch(() => {});
  }

  get #judging() {
    return { ...this.#options, workingDir: this.#workingDir };
  }

  /** Ends the running command, if necessary with its shell. */
  async #interrupt(shell: Shell): Promise<void> {
    if (await interruptCommand(this.#sandbox, shell)) return;
    await shell.kill();
    this.#shell = undefined;
    this.#lost = true;
  }

  async #open(signal: AbortSignal): Promise<Shell> {
    const { env, outputDir, cwd, held } = this.#options;
    const stateFile = this.#inherits ? this.#options.stateFile : undefined;
    const shell = await Shell.open(
      this.#sandbox,
      { workingDirs: [this.#workingDir, cwd], env, outputDir, stateFile, held },
      signal,
    );
    this.#inherits = false;
    this.#workingDir = shell.status.workingDir || this.#workingDir;
    return shell;
  }

  #observe(action: TerminalAction, outcome: TerminalOutcome): TerminalObservation {
    const { spec, id } = this.#sandbox;
    const status = this.#shell?.status;
    return toTerminalObservation(action, outcome, {
      pid: status?.jobPid ?? -1,
      username: spec.user.name,
      hostname: id,
      workingDir: this.#workingDir,
      python: status?.python,
      maxProcesses: spec.limits.pids,
    });
  }
}
