import { PlatformError } from "@sandpiper/core/errors";
import type { ExecRequest, PreparedSpec, SandboxProcess } from "../../../driver.ts";
import { findBusybox } from "../../common/busybox.ts";
import { insideBusybox, insideFolder, ResidentFolders } from "../../common/folders.ts";
import type { ProcessGroup } from "../cgroup/process-group.ts";
import { ResidentShells } from "../warm-shell/shells.ts";
import { shellArgv, startShell } from "../warm-shell/start.ts";
import { processConfig } from "./config.ts";
import type { ExecFiles } from "./exec-files.ts";
import { execPiped } from "./process.ts";
import type { ProcessRules } from "./rlimits.ts";
import type { Runtime } from "./runtime.ts";
import { execTty } from "./tty-process.ts";

/** What a command needs to know of the installation. */
export interface ExecHost {
  runtime: Runtime;
  /** argv words before an `exec`: the runtime and its general options. */
  words: string[];
  rules: ProcessRules;
  /** Tells installations on this machine apart. */
  installation: string;
}

/** What a command needs to know of its sandbox. */
export interface ExecTarget {
  id: string;
  /** Folder for short-lived process files, private to the server. */
  folder: string;
  spec: PreparedSpec;
  /** Host id of the sandbox's root. */
  idBase: number;
  group: ProcessGroup;
}

/**
 * Runs commands in the sandboxes of an installation: by a resident shell where one waits (about 1.5 ms), else by the runtime (10 ms and more).
 * A terminal always comes from the runtime. Without a static busybox on this machine everything goes by the runtime.
 */
export class Executor {
  readonly #host: ExecHost;
  /** Undefined where commands only go by the runtime. */
  readonly #resident: { busybox: string; folders: ResidentFolders } | undefined;
  readonly #shells = new Map<string, ResidentShells>();

  constructor(host: ExecHost) {
    this.#host = host;
    const busybox = findBusybox();
    this.#resident =
      busybox === undefined ? undefined : { busybox, folders: new ResidentFolders(host.installation) };
  }

  /** argv words before a script that run a POSIX shell with file tools in every sandbox. */
  get shell(): string[] {
    return this.#resident ? [insideBusybox, "sh"] : ["sh"];
  }

  /** To be called before each start of a sandbox: gives the binds (read-only) that its commands need. */
  binds(id: string): { source: string; destination: string }[] {
    if (!this.#resident) return [];
    const { busybox, folders } = this.#resident;
    return [
      { source: folders.make(id), destination: insideFolder },
      { source: busybox, destination: insideBusybox },
    ];
  }

  /** See `SandboxDriver.exec`. Throws SandboxNotRunning, and InvalidParameter for a command without words or with a NUL. */
  async exec(target: ExecTarget, command: ExecRequest): Promise<SandboxProcess> {
    checkText([...command.argv, command.cwd ?? "", ...Object.entries(command.env ?? {}).flat()]);
    if (command.argv.length === 0)
      throw new PlatformError("InvalidParameter", "A command needs at least one word.");
    checkRunning(target);
    const process = processConfig(target.spec, command, this.#host.rules);
    if (!command.tty) {
      const resident = await this.#shellsOf(target)?.run(process);
      if (resident) return resident;
      // A shell that did not answer may be one that was frozen meanwhile.
      checkRunning(target);
    }
    const { kind } = this.#host.runtime;
    const words = command.tty ? ["--tty"] : kind === "runc" ? ["--preserve-fds", "3"] : [];
    const argv = (files: ExecFiles) => this.#argv(target, files, words);
    if (!command.tty) return execPiped(target.folder, process, kind, argv);
    const repair = {
      owner: target.idBase + target.spec.user.uid,
      run: async (words: string[]) => (await this.exec(target, { argv: words, cwd: "/" })).exit,
    };
    return execTty(target.folder, process, command.tty, argv, kind === "crun" ? repair : undefined);
  }

  /** To be called once the processes of a sandbox have ended: what is kept for its next command is let go. */
  drop(id: string): void {
    this.#shells.get(id)?.end();
    this.#shells.delete(id);
    this.#resident?.folders.remove(id);
  }

  /** Ends the shells that wait. Commands that run go on. */
  close(): void {
    for (const shells of this.#shells.values()) shells.end();
    this.#shells.clear();
    this.#resident?.folders.close();
  }

  #shellsOf(target: ExecTarget): ResidentShells | undefined {
    if (!this.#resident) return undefined;
    const { folders } = this.#resident;
    let shells = this.#shells.get(target.id);
    if (!shells) {
      shells = new ResidentShells(() => this.#startShell(target, folders.of(target.id)));
      this.#shells.set(target.id, shells);
    }
    return shells;
  }

  #startShell(target: ExecTarget, pipes: string) {
    const { spec, idBase, group } = target;
    const process = { ...processConfig(spec, { argv: shellArgv, cwd: "/" }, this.#host.rules), env: [] };
    const owner = { uid: idBase + spec.user.uid, gid: idBase + spec.user.gid };
    return startShell(
      target.folder,
      process,
      (files) => this.#argv(target, files, ["--detach", "--preserve-fds", "1"]),
      {
        folder: pipes,
        owner,
        group,
      },
    );
  }

  #argv({ id, group, spec }: ExecTarget, files: ExecFiles, words: string[]): string[] {
    void files.started.then((pid) => pid !== undefined && group.admit(pid, spec.limits));
    return [
      ...this.#host.words,
      "exec",
      ...words,
      "--pid-file",
      files.pidFile,
      "--process",
      files.processFile,
      id,
    ];
  }
}

function checkRunning({ id, group }: ExecTarget): void {
  const state = group.state();
  if (state === "paused")
    throw new PlatformError("SandboxNotRunning", `The sandbox ${id} is paused; resume it first.`);
  if (state === "gone")
    throw new PlatformError(
      "SandboxNotRunning",
      `The processes of the sandbox ${id} have ended; start it again.`,
    );
}

/** A NUL cannot be part of an argument or a path. */
function checkText(texts: string[]): void {
  if (texts.some((text) => text.includes("\0")))
    throw new PlatformError("InvalidParameter", "A command may not contain NUL characters.");
}
