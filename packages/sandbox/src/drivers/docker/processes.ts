import { readFileSync } from "node:fs";
import { readStatFields, sendSignal } from "../common/processes.ts";
import type { Engine } from "./engine.ts";

/** Variable that marks the processes of one command when host process ids are not available. */
const markerName = "SANDPIPER_EXEC";

/** A running command. */
export interface SignalTarget {
  container: string;
  user: string;
  /** Process id from the engine. */
  pid: number;
  execKey: string;
}

/** Sends signals to processes of a container. */
export interface Signaller {
  /** Environment of a command that `signal` needs to find it. */
  markerEnv(execKey: string): string[];
  /** Sends a signal to a command (SIGKILL to its process group). One that has ended is fine. */
  signal(target: SignalTarget, signal: NodeJS.Signals): Promise<void>;
  /** Sends SIGTERM to every process, except to the first one (`init.pid`) when that only reaps. */
  terminateAll(container: string, user: string, init: { pid: number; onlyReaps: boolean }): Promise<void>;
}

/** For root on the engine's machine; it also reaches containers without a shell. */
export class DirectSignaller implements Signaller {
  markerEnv(): string[] {
    return [];
  }

  async signal({ pid, container }: SignalTarget, signal: NodeJS.Signals): Promise<void> {
    signalMember(pid, container, signal, signal === "SIGKILL");
  }

  async terminateAll(
    container: string,
    _user: string,
    init: { pid: number; onlyReaps: boolean },
  ): Promise<void> {
    for (const pid of listGroup(init.pid))
      if (pid !== init.pid || !init.onlyReaps) signalMember(pid, container, "SIGTERM");
  }
}

/** For all other servers: a shell in the container sends the signals. */
export class ShellSignaller implements Signaller {
  readonly #engine: Engine;
  readonly #shell: string[];

  constructor(engine: Engine, shell: string[]) {
    this.#engine = engine;
    this.#shell = shell;
  }

  markerEnv(execKey: string): string[] {
    return [`${markerName}=${execKey}`];
  }

  async signal({ container, user, execKey }: SignalTarget, signal: NodeJS.Signals): Promise<void> {
    const script =
      'for f in $(grep -ls "$1" /proc/[0-9]*/environ); do f=${f#/proc/}; kill -s "$2" "${f%/environ}"; done';
    const argv = ["-c", script, "sh", `${markerName}=${execKey}`, signal.replace(/^SIG/, "")];
    await this.#run(container, user, argv);
  }

  async terminateAll(container: string, user: string): Promise<void> {
    await this.#run(container, user, ["-c", "kill -TERM -1"]);
  }

  async #run(container: string, user: string, words: string[]): Promise<void> {
    await this.#engine.request("send a signal", async (abortSignal) => {
      const Cmd = [...this.#shell, ...words];
      const exec = await this.#engine.docker
        .getContainer(container)
        .exec({ Cmd, User: user, WorkingDir: "/", abortSignal });
      (await exec.start({ Detach: true, abortSignal })).resume();
    });
  }
}

/** True when a process of this machine belongs to the container; process ids are reused. */
export function isMember(pid: number, container: string): boolean {
  try {
    return pid > 0 && readFileSync(`/proc/${pid}/cgroup`, "latin1").includes(container);
  } catch {
    return false;
  }
}

/** `toGroup`: to the whole process group if the process leads one. */
function signalMember(pid: number, container: string, signal: NodeJS.Signals, toGroup = false): void {
  if (!isMember(pid, container)) return;
  try {
    sendSignal(toGroup && Number(readStatFields(pid)[2]) === pid ? -pid : pid, signal);
  } catch {
    // The process has ended.
  }
}

/** Ids of the processes in the control group of a process of this machine. */
export function listGroup(pid: number): number[] {
  try {
    const lines = readFileSync(`/proc/${pid}/cgroup`, "latin1").trim().split("\n");
    const unified = lines.find((line) => line.startsWith("0::/"));
    const pids = lines.find((line) => /^\d+:(\S+,)?pids(,\S+)?:/.test(line));
    const path = pids
      ? `/sys/fs/cgroup/pids${pids.slice(pids.indexOf(":/") + 1)}`
      : `/sys/fs/cgroup${unified?.slice(3)}`;
    return readFileSync(`${path}/cgroup.procs`, "latin1").trim().split("\n").map(Number);
  } catch {
    return [];
  }
}
