import { PlatformError } from "@sandpiper/core/errors";
import type { TimeSlicedQueue } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { ExecRequest, PreparedSpec, SandboxProcess } from "../../../driver.ts";
import { findBusybox, insideBusybox, insideFolder } from "../../common/busybox.ts";
import { checkCommand } from "../../common/commands.ts";
import { checkFence, toFencedArgv } from "../../common/fence.ts";
import type { BindMount } from "../../common/host.ts";
import type { ProcessGroup } from "../cgroup/process-groups.ts";
import { PipeFolders } from "../warm-shell/pipe-folders.ts";
import { shellArgv, startShell } from "../warm-shell/start-shell.ts";
import { WarmShells } from "../warm-shell/warm-shells.ts";
import { makeProcessConfig } from "./config.ts";
import type { ExecFiles, ExecPlace } from "./exec-files.ts";
import { execPiped } from "./pipe-process.ts";
import type { ProcessLimits } from "./rlimits.ts";
import type { Runtime } from "./runtime.ts";
import { execTty } from "./tty-process.ts";

export interface ExecutorOptions {
  runtime: Runtime;
  /** The runtime and its general options, before `exec`. */
  runtimeArgv: string[];
  limits: ProcessLimits;
  /** Distinguishes installations on this machine. */
  installation: string;
  /** Where commands wait to begin, because each takes up to some milliseconds of system calls. */
  turns: Pick<TimeSlicedQueue, "run">;
}

/** The sandbox that a command runs in. */
export interface OciExecTarget {
  id: string;
  place: ExecPlace;
  spec: PreparedSpec;
  /** Host id of the sandbox's root. */
  idBase: number;
  /** Text that each start of the sandbox changes, also a start by another process. */
  start: string;
  group: ProcessGroup;
}

/**
 * Runs commands in the sandboxes of an installation, on terminals too: in an idle warm shell
 * (about 1.5 ms), else by the runtime (10 ms and more). Everything comes from the runtime when this
 * machine has no static busybox.
 */
export class Executor {
  readonly #options: ExecutorOptions;
  /** Undefined when there are no warm shells. */
  readonly #warm: { busybox: string; folders: PipeFolders } | undefined;
  readonly #shells = new Map<string, { shells: WarmShells; start: string }>();

  constructor(options: ExecutorOptions) {
    this.#options = options;
    const busybox = findBusybox();
    if (busybox !== undefined) this.#warm = { busybox, folders: new PipeFolders(options.installation) };
  }

  /** Arguments before a script that run a POSIX shell with file tools in every sandbox. */
  get shell(): string[] {
    return this.#warm ? [insideBusybox, "sh"] : ["sh"];
  }

  /** Called before each start of a sandbox; returns the binds that its commands need. */
  prepareBinds(id: string): BindMount[] {
    if (!this.#warm) return [];
    const { busybox, folders } = this.#warm;
    return [
      { source: folders.make(id), destination: insideFolder },
      { source: busybox, destination: insideBusybox },
    ];
  }

  /** See `SandboxDriver.exec`. Throws SandboxNotRunning and InvalidParameter. */
  async exec(target: OciExecTarget, command: ExecRequest): Promise<SandboxProcess> {
    checkCommand(command);
    checkRunning(target);
    const { turns, limits } = this.#options;
    const { fence, isSession } = command;
    if (fence) checkFence(fence);
    const own = makeProcessConfig(target.spec, command, limits);
    const started = await turns.run(() =>
      this.#warmShells(target)?.run({ ...own, fence }, command.tty, isSession),
    );
    if (started) return started;
    const process = { ...own, args: toFencedArgv(command, this.shell) };
    const { kind } = this.#options.runtime;
    const options = command.tty ? ["--tty"] : kind === "runc" ? ["--preserve-fds", "3"] : [];
    const argv = (files: ExecFiles) => this.#argv(target, files, options);
    const begin = <Started>(start: () => Started) =>
      turns.run(() => {
        // It may have been frozen meanwhile.
        checkRunning(target);
        return start();
      });
    if (!command.tty) return begin(() => execPiped(target, process, kind, argv));
    const repair = {
      owner: target.idBase + target.spec.user.uid,
      run: async (words: string[]) => (await this.exec(target, { argv: words, cwd: "/" })).exit,
    };
    const { tty } = command;
    return begin(() => execTty(target.place, process, tty, argv, kind === "crun" ? repair : undefined));
  }

  /** Called once the processes of a sandbox have ended: ends its warm shells. */
  release(id: string): void {
    this.#shells.get(id)?.shells.end();
    this.#shells.delete(id);
    this.#warm?.folders.remove(id);
  }

  /** Ends the idle shells. Running commands go on. */
  close(): void {
    for (const { shells } of this.#shells.values()) shells.end();
    this.#shells.clear();
  }

  /** Removes the folder of warm shells. No other process uses the installation at that time. */
  removeFolder(): void {
    this.#warm?.folders.removeFolder();
  }

  #warmShells(target: OciExecTarget): WarmShells | undefined {
    if (!this.#warm) return undefined;
    const { folders } = this.#warm;
    const known = this.#shells.get(target.id);
    if (known?.start === target.start) return known.shells;
    known?.shells.end();
    const start = () => this.#startShell(target, folders.path(target.id));
    const shells = new WarmShells(start, { isAlwaysWanted: !target.group.carriesLimits });
    this.#shells.set(target.id, { shells, start: target.start });
    return shells;
  }

  #startShell(target: OciExecTarget, pipes: string) {
    const { spec, idBase, group } = target;
    const process = {
      ...makeProcessConfig(spec, { argv: shellArgv, cwd: "/" }, this.#options.limits),
      env: [],
    };
    const owner = { uid: idBase + spec.user.uid, gid: idBase + spec.user.gid };
    const argv = (files: ExecFiles) => this.#argv(target, files, ["--detach", "--preserve-fds", "1"]);
    return startShell(target.place, process, argv, { folder: pipes, owner, group });
  }

  #argv({ id, group, spec }: OciExecTarget, files: ExecFiles, options: string[]): string[] {
    void files.started.then((pid) => pid !== undefined && group.admit(pid, spec.limits));
    const { processFile, pidFile } = files;
    const own = ["--pid-file", pidFile, "--process", processFile];
    return [...this.#options.runtimeArgv, "exec", ...options, ...own, id];
  }
}

function checkRunning({ id, group }: OciExecTarget): void {
  const state = group.state();
  if (state === "paused") throw new PlatformError("SandboxPaused", { id });
  if (state === "gone") throw new PlatformError("SandboxProcessesEnded", { id });
}
