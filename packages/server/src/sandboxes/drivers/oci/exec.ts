import { PlatformError } from "../../../errors.ts";
import type { ExecRequest, PreparedSpec, SandboxProcess } from "../../driver.ts";
import { groupState } from "./cgroups.ts";
import { processConfig } from "./config.ts";
import type { ExecFiles } from "./exec-files.ts";
import { execPiped } from "./process.ts";
import type { Runtime } from "./runtime.ts";
import { execTty } from "./tty-process.ts";

/** What a command needs to know of the installation. */
export interface ExecHost {
  runtime: Runtime;
  /** argv words before an `exec` of the runtime. */
  prefix: string[];
  /** The runtime's `--root`. */
  stateDir: string;
  /** Limit of open files of a process. */
  openFiles: number;
}

/** What a command needs to know of its sandbox. */
export interface ExecTarget {
  id: string;
  /** Folder for short-lived process files, private to the server. */
  folder: string;
  spec: PreparedSpec;
  /** Host id of the sandbox's root. */
  idBase: number;
  /** Control group, as a path below the mount. */
  group: string;
}

/** Runs commands in the sandboxes of an installation. */
export class Executor {
  readonly #host: ExecHost;

  constructor(host: ExecHost) {
    this.#host = host;
  }

  /** See `SandboxDriver.exec`. Throws SandboxNotRunning, and InvalidParameter for a command without words or with a NUL. */
  async exec(target: ExecTarget, command: ExecRequest): Promise<SandboxProcess> {
    const { runtime, prefix, stateDir, openFiles } = this.#host;
    const { id, spec } = target;
    checkText([...command.argv, command.cwd ?? "", ...Object.entries(command.env ?? {}).flat()]);
    if (command.argv.length === 0) throw new PlatformError("InvalidParameter", "A command needs at least one word.");
    const state = groupState(target.group);
    if (state === "paused") throw new PlatformError("SandboxNotRunning", `The sandbox ${id} is paused; resume it first.`);
    if (state === "gone")
      throw new PlatformError("SandboxNotRunning", `The processes of the sandbox ${id} have ended; start it again.`);

    const process = processConfig(spec, command, openFiles);
    const argv = (files: ExecFiles) => [
      ...prefix,
      ...[runtime.path, "--root", stateDir, "exec"],
      ...(command.tty ? ["--tty"] : []),
      ...(!command.tty && runtime.kind === "runc" ? ["--preserve-fds", "3"] : []),
      ...["--pid-file", files.pidFile, "--process", files.processFile, id],
    ];
    if (!command.tty) return execPiped(target.folder, process, runtime.kind, argv);
    const repair = {
      owner: target.idBase + spec.user.uid,
      run: async (words: string[]) => (await this.exec(target, { argv: words, cwd: "/" })).exit,
    };
    return execTty(target.folder, process, command.tty, argv, runtime.kind === "crun" ? repair : undefined);
  }

  /** To be called when the processes of a sandbox have ended or are about to: what is kept for its next command is let go. */
  drop(_id: string): void {}
}

/** A NUL cannot be part of an argument or a path. */
function checkText(texts: string[]): void {
  if (texts.some((text) => text.includes("\0")))
    throw new PlatformError("InvalidParameter", "A command may not contain NUL characters.");
}
