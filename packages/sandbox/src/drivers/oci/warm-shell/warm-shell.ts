import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import type { ExitStatus, SandboxProcess } from "../../../driver.ts";
import { unlockProcessTerminal } from "../../../kernel/process-terminal.ts";
import type { TtySize } from "../../../kernel/pseudo-terminal.ts";
import { insideFolder } from "../../common/busybox.ts";
import { toExitStatus } from "../../common/commands.ts";
import { readStatFields, sendSignal } from "../../common/processes.ts";
import type { ProcessGroup } from "../cgroup/process-groups.ts";
import { captureOutput, drainOutput } from "../container/output-pipe.ts";
import { CommandPipes } from "./command-pipes.ts";
import { type Command, makeCommandScript } from "./command-script.ts";
import { CommandTerminal } from "./command-terminal.ts";
import type { ShellChannel } from "./shell-channel.ts";

/** Wait for a new shell, ms. */
const greetTimeoutMs = 5_000;
/** Wait for a shell to open a command's pipes, ms; then the runtime runs the command. */
const openTimeoutMs = 1_000;
/** Interval at which late readers of an ended stdin are woken, ms. */
const wakeIntervalMs = 100;
/** Time after SIGKILL until a command counts as ended, ms: a frozen process cannot die. */
const killTimeoutMs = 1_000;

/** The sandbox of a shell. */
export interface ShellTarget {
  /** Folder of the sandbox's pipes on the host. */
  folder: string;
  /** Host ids of the user that runs commands. */
  owner: { uid: number; gid: number };
  /** The processes of the sandbox. */
  group: ProcessGroup;
}

/** Distinguishes names from those of pipes that a killed server left. */
const prefix = randomBytes(6).toString("hex");
let serial = 0;

/**
 * A shell inside a sandbox that runs commands for the server, one at a time. The sandbox may
 * manipulate it: only the reported exit code depends on it, and the runtime runs a command that it
 * does not start.
 */
export class WarmShell {
  readonly #channel: ShellChannel;
  readonly #pid: number;
  readonly #target: ShellTarget;
  #busy = false;

  /** `pid` is the shell's process id on the host. */
  constructor(channel: ShellChannel, pid: number, target: ShellTarget) {
    this.#channel = channel;
    this.#pid = pid;
    this.#target = target;
  }

  get state(): "idle" | "busy" | "ended" {
    return this.#channel.isOpen ? (this.#busy ? "busy" : "idle") : "ended";
  }

  onEnd(listener: () => void): void {
    this.#channel.onEnd(listener);
  }

  /** Waits for the first answer of the shell. False when none comes. */
  async greet(): Promise<boolean> {
    // Commands must not get the variables that the runtime and the shell set themselves.
    this.#channel.send("unset HOME SHLVL PWD OLDPWD; echo r >&3\n");
    if ((await this.#channel.readLine(greetTimeoutMs)) === "r") return true;
    this.end();
    return false;
  }

  /**
   * Starts a command in an idle shell, with `tty` on a terminal of that size. Undefined when the
   * command did not and will not run.
   */
  async run(command: Command, tty?: TtySize): Promise<SandboxProcess | undefined> {
    this.#busy = true;
    let link: CommandPipes | CommandTerminal | undefined;
    try {
      const name = `${prefix}-${(serial++).toString(36)}`;
      link = tty ? this.#openTerminal(tty) : new CommandPipes(this.#target.folder, name, this.#target.owner);
      const ends = "path" in link ? { terminal: link.path } : { pipes: `${insideFolder}/${name}` };
      const text = makeCommandScript(ends, command);
      if (text === undefined) {
        link.close();
        this.#busy = false;
        return undefined;
      }
      this.#channel.send(text);
      if ((await this.#channel.readLine(openTimeoutMs)) === "s") return this.#attach(link);
    } catch {
      // No descriptors are free, or the folder or the shell is gone.
    }
    // Without its pipes or terminal the command cannot start any more.
    link?.close();
    this.end();
    return undefined;
  }

  #openTerminal(size: TtySize): CommandTerminal {
    const { group, owner } = this.#target;
    if (!group.has(this.#pid)) throw new Error("the shell has ended");
    return new CommandTerminal(`/proc/${this.#pid}/root`, owner.uid, size);
  }

  /** Ends the shell; its running command goes on. */
  end(): void {
    this.#channel.end();
    // A stopped shell does not see the end of its input.
    if (this.#target.group.has(this.#pid)) sendSignal(this.#pid, "SIGKILL");
  }

  #attach(link: CommandPipes | CommandTerminal): SandboxProcess {
    const { stdin, stdout: out, stderr: err } = link.connect();
    // The reader may close the pipe before all input is written.
    stdin.on("error", () => {});
    const stdout = captureOutput(out);
    const stderr = captureOutput(err);
    const sent = new Set<NodeJS.Signals>();
    const result = this.#channel.readLine();
    this.#channel.send("\n");

    let ended = false;
    let isLeft = false;
    let killTimer: NodeJS.Timeout | undefined;
    let wake: NodeJS.Timeout | undefined;
    stdin.once("close", () => {
      if (!ended && "wakeReaders" in link)
        wake = setInterval(() => link.wakeReaders(), wakeIntervalMs).unref();
    });
    const finish = async (): Promise<ExitStatus> => {
      const line = await result;
      ended = true;
      clearTimeout(killTimer);
      clearInterval(wake);
      link.close();
      this.#busy = false;
      const code = /^x (\d{1,3})$/.exec(line ?? "")?.[1];
      if (code === undefined && !isLeft) this.#abandon();
      await Promise.all([drainOutput(out, stdout), drainOutput(err, stderr)]);
      stdin.destroy();
      return toExitStatus(code === undefined ? 137 : Number(code), sent);
    };
    const signal = (name: NodeJS.Signals = "SIGKILL") => {
      if (ended) return;
      const target = this.#command();
      if (target !== undefined && sendSignal(name === "SIGKILL" ? groupTarget(target) : target, name))
        sent.add(name);
      if (name === "SIGKILL") killTimer ??= setTimeout(() => this.#channel.end(), killTimeoutMs).unref();
    };
    const resize = (cols: number, rows: number) => {
      if (!ended && "resize" in link) link.resize({ cols, rows });
    };
    const unlockTerminal = async (fd: number, size: TtySize) =>
      unlockProcessTerminal(this.#command() ?? 0, fd, size, (pid) => this.#target.group.has(pid));
    const leave = () => {
      isLeft = true;
      for (const stream of [stdin, out, err]) stream.destroy();
      this.#channel.end();
    };
    return { stdin, stdout, stderr, exit: finish(), kill: signal, resize, unlockTerminal, leave };
  }

  /** Kills the command of a shell that has ended or gave an invalid answer. */
  #abandon(): void {
    const command = this.#command();
    if (command !== undefined) sendSignal(groupTarget(command), "SIGKILL");
    this.end();
  }

  /** Host id of the shell's only child, from the kernel and not from the sandbox. */
  #command(): number | undefined {
    const { group } = this.#target;
    if (!knowsChildren) return group.members().find((pid) => statField(pid, 1) === this.#pid);
    return readChildren(this.#pid).find((pid) => group.has(pid));
  }
}

/** Nearly every kernel lists children: a look at each process of a sandbox takes milliseconds. */
const knowsChildren = existsSync("/proc/thread-self/children");

function readChildren(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim().split(" ").map(Number);
  } catch {
    return [];
  }
}

/** Field of /proc/<pid>/stat after the name; undefined when the process has ended. */
function statField(pid: number, index: number): number | undefined {
  try {
    return Number(readStatFields(pid)[index]);
  } catch {
    return undefined;
  }
}

/** The process group that a command leads, else the process alone. */
function groupTarget(pid: number): number {
  return statField(pid, 2) === pid ? -pid : pid;
}
