import { readFileSync } from "node:fs";
import { statFields } from "../common/process-stat.ts";
import type { Engine } from "./engine.ts";

/** Variable by which the processes of one command are known where the host's process ids are out of reach. */
export const markerName = "SANDPIPER_EXEC";

/** How signals reach processes of a container. */
export interface Signaller {
  /** Environment that a command needs to be found by `one`. */
  mark(execKey: string): string[];
  /** Sends a signal to a command, SIGKILL to what it waits for too: `pid` is the engine's. One that has ended is fine. */
  one(
    container: string,
    user: string,
    target: { pid: number; execKey: string },
    signal: NodeJS.Signals,
  ): Promise<void>;
  /** Sends SIGTERM to every process but `init` (the engine's id of the first one, when that only reaps). */
  terminateAll(container: string, user: string, init: { pid: number; spare: boolean }): Promise<void>;
}

/** Root on the engine's machine sends signals itself, also into containers without a shell. */
export class DirectSignaller implements Signaller {
  mark(): string[] {
    return [];
  }

  async one(
    container: string,
    _user: string,
    { pid }: { pid: number },
    signal: NodeJS.Signals,
  ): Promise<void> {
    send(pid, container, signal, signal === "SIGKILL");
  }

  async terminateAll(container: string, _user: string, init: { pid: number; spare: boolean }): Promise<void> {
    for (const pid of membersOf(init.pid))
      if (pid !== init.pid || !init.spare) send(pid, container, "SIGTERM");
  }
}

/** Everybody else lets a shell in the container do it. */
export class InsideSignaller implements Signaller {
  readonly #engine: Engine;
  readonly #shell: string[];

  constructor(engine: Engine, shell: string[]) {
    this.#engine = engine;
    this.#shell = shell;
  }

  mark(execKey: string): string[] {
    return [`${markerName}=${execKey}`];
  }

  async one(
    container: string,
    user: string,
    { execKey }: { execKey: string },
    signal: NodeJS.Signals,
  ): Promise<void> {
    const script =
      'for f in $(grep -ls "$1" /proc/[0-9]*/environ); do f=${f#/proc/}; kill -s "$2" "${f%/environ}"; done';
    const argv = ["-c", script, "sh", `${markerName}=${execKey}`, signal.replace(/^SIG/, "")];
    await this.#run(container, user, argv);
  }

  async terminateAll(container: string, user: string): Promise<void> {
    await this.#run(container, user, ["-c", "kill -TERM -1"]);
  }

  async #run(container: string, user: string, words: string[]): Promise<void> {
    await this.#engine.ask("send a signal", async (abortSignal) => {
      const Cmd = [...this.#shell, ...words];
      const exec = await this.#engine.docker
        .getContainer(container)
        .exec({ Cmd, User: user, WorkingDir: "/", abortSignal });
      (await exec.start({ Detach: true, abortSignal })).resume();
    });
  }
}

/** True when a process of this machine belongs to the container: ids are used again, and those of another machine mean nothing here. */
export function belongsTo(pid: number, container: string): boolean {
  try {
    return pid > 0 && readFileSync(`/proc/${pid}/cgroup`, "latin1").includes(container);
  } catch {
    return false;
  }
}

/** `group`: to the whole process group, where the process leads one. */
function send(pid: number, container: string, signal: NodeJS.Signals, group = false): void {
  if (!belongsTo(pid, container)) return;
  try {
    process.kill(group && Number(statFields(pid)[2]) === pid ? -pid : pid, signal);
  } catch {
    // It has just ended.
  }
}

/** Ids of the processes that share the control group of one. */
function membersOf(pid: number): number[] {
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
