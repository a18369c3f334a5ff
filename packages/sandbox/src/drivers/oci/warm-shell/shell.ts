import { randomBytes } from "node:crypto";
import { kill } from "node:process";
import type { ExitStatus, SandboxProcess } from "../../../driver.ts";
import { statFields } from "../../common/process-stat.ts";
import type { ProcessGroup } from "../cgroup/process-group.ts";
import { exitStatus } from "../container/exit-status.ts";
import { capture, readOut } from "../container/output-pipe.ts";
import { CommandPipes } from "./command-pipes.ts";
import { type Command, commandText } from "./command-text.ts";
import type { ShellChannel } from "./shell-channel.ts";

/** How long a shell may take to open a command's pipes before the command goes another way, ms. */
const openMs = 1_000;

/** How often who still waits for an ended stdin is woken, ms. */
const wakeMs = 100;

/** How long after SIGKILL a command counts as ended although its shell says nothing, ms. A frozen process cannot die. */
const patienceMs = 1_000;

export interface ShellPlace {
  /** Folder of the sandbox's pipes on the host. */
  folder: string;
  /** Host ids of the user that commands run as. */
  owner: { uid: number; gid: number };
  /** The processes of the sandbox. */
  group: ProcessGroup;
}

/** Names of pipes: a server that was killed may have left some. */
const prefix = randomBytes(6).toString("hex");
let serial = 0;

/**
 * A shell inside a sandbox that runs commands for the server, one at a time. It is the sandbox's own process and may do or say anything:
 * nothing depends on it but the exit code that it tells, and a command that it does not start goes by the runtime.
 */
export class ResidentShell {
  readonly #channel: ShellChannel;
  readonly #pid: number;
  readonly #place: ShellPlace;
  #busy = false;

  /** `pid` is the shell's process id on the host. */
  constructor(channel: ShellChannel, pid: number, place: ShellPlace) {
    this.#channel = channel;
    this.#pid = pid;
    this.#place = place;
  }

  get state(): "idle" | "busy" | "ended" {
    return this.#channel.open ? (this.#busy ? "busy" : "idle") : "ended";
  }

  onEnd(listener: () => void): void {
    this.#channel.onEnd(listener);
  }

  /** Waits until the shell answers for the first time. Gives false when it does not. */
  async greet(): Promise<boolean> {
    // What the runtime and the shell put into the environment themselves is not a command's.
    this.#channel.send("unset HOME SHLVL PWD OLDPWD; echo r >&3\n");
    if ((await this.#channel.line(5_000)) === "r") return true;
    this.end();
    return false;
  }

  /** Runs a command; resolves once it is started. Undefined: it was not run and will not be. Only for an idle shell. */
  async run(command: Command): Promise<SandboxProcess | undefined> {
    const name = `${prefix}-${(serial++).toString(36)}`;
    const text = commandText(name, command);
    if (text === undefined) return undefined;
    this.#busy = true;
    let pipes: CommandPipes | undefined;
    try {
      pipes = new CommandPipes(this.#place.folder, name, this.#place.owner);
      this.#channel.send(text);
      if ((await this.#channel.line(openMs)) === "s") return this.#attach(pipes);
    } catch {
      // The server has no descriptors left, or the folder is gone.
    }
    // Without its pipes the command cannot begin any more.
    pipes?.close();
    this.end();
    return undefined;
  }

  /** Ends the shell; a command that it runs goes on. */
  end(): void {
    this.#channel.end();
    // A shell that is stopped does not see the end of its input.
    if (this.#place.group.has(this.#pid)) send(this.#pid, "SIGKILL");
  }

  #attach(pipes: CommandPipes): SandboxProcess {
    const { stdin, stdout: out, stderr: err } = pipes.connect();
    // The reader of a pipe may end before everything is written; that is the command's own affair.
    stdin.on("error", () => {});
    const stdout = capture(out);
    const stderr = capture(err);
    const sent = new Set<NodeJS.Signals>();
    const told = this.#channel.line();
    stdin.write("\n");

    let ended = false;
    let giveUp: NodeJS.Timeout | undefined;
    let wake: NodeJS.Timeout | undefined;
    stdin.once("close", () => {
      if (!ended) wake = setInterval(() => pipes.wakeReaders(), wakeMs).unref();
    });
    const finish = async (): Promise<ExitStatus> => {
      const line = await told;
      ended = true;
      clearTimeout(giveUp);
      clearInterval(wake);
      pipes.close();
      this.#busy = false;
      const code = /^x (\d{1,3})$/.exec(line ?? "")?.[1];
      if (code === undefined) this.#abandon();
      await Promise.all([readOut(out, stdout), readOut(err, stderr)]);
      stdin.destroy();
      return exitStatus(code === undefined ? 137 : Number(code), true, sent, "");
    };
    const signal = (name: NodeJS.Signals = "SIGKILL") => {
      if (ended) return;
      const target = this.#command();
      if (target !== undefined && send(name === "SIGKILL" ? groupTarget(target) : target, name))
        sent.add(name);
      if (name === "SIGKILL") giveUp ??= setTimeout(() => this.#channel.end(), patienceMs).unref();
    };
    return { stdin, stdout, stderr, exit: finish(), kill: signal, resize: () => {} };
  }

  /** The shell is gone or lies: nobody waits for its command any more. */
  #abandon(): void {
    const command = this.#command();
    if (command !== undefined) send(groupTarget(command), "SIGKILL");
    this.end();
  }

  /** Host id of the process that the shell waits for: its only child. Asked of the kernel, not of the sandbox. */
  #command(): number | undefined {
    return this.#place.group.members().find((pid) => fieldOf(pid, 1) === this.#pid);
  }
}

/** Field of /proc/<pid>/stat after the name; undefined when the process has ended. */
function fieldOf(pid: number, index: number): number | undefined {
  try {
    return Number(statFields(pid)[index]);
  } catch {
    return undefined;
  }
}

/** The process group that a command leads, as a target for `kill`; the process alone while it does not lead one yet. */
function groupTarget(pid: number): number {
  return fieldOf(pid, 2) === pid ? -pid : pid;
}

function send(target: number, signal: NodeJS.Signals): boolean {
  try {
    return kill(target, signal);
  } catch {
    // It has just ended.
    return false;
  }
}
