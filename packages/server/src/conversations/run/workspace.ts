import { Browser } from "@sandpiper/agent/browser/browser";
import { planPathOf } from "@sandpiper/agent/prompt/planning";
import type { ToolContext } from "@sandpiper/agent/tools/tool";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { openTerminal, type Terminal } from "@sandpiper/sandbox/shell/terminal";
import { hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { GitIdentity } from "../project/clone.ts";
import { PauseGate } from "./sandbox-pause.ts";

/** Makes the working folder, and a git repository of it where git is there and none exists (app-server.md section 2.4). */
const prepareScript = `mkdir -p -- "$1" && cd -- "$1" || exit 1
[ "$2" = plain ] || [ -e .git ] || ! command -v git >/dev/null 2>&1 ||
  { git init -q && git config user.name "$3" && git config user.email "$4"; } || :`;

/** Time for the preparation, ms. */
const prepareTimeout = 60_000;

/** The hands of one conversation: its sandbox once it is ready, its shell, and what its tools remember while it is awake. */
export class Workspace {
  readonly pauseGate = new PauseGate();
  readonly #sandboxes: Sandboxes;
  readonly #sandboxId: string;
  readonly #config: ConversationRow["config"];
  readonly #identity: () => GitIdentity;
  readonly #conversationId: string;
  readonly #memory = new Map<string, unknown>();
  readonly #release: () => void;
  /** Resolves when nobody holds the sandbox any more, such as the start of the conversation that makes its project. */
  #blocked: Promise<void> | undefined;
  #prepared: { incarnation: string; done: Promise<void> } | undefined;
  #terminal: { incarnation: string; terminal: Terminal } | undefined;
  #browser: { incarnation: string; browser: Browser } | undefined;

  /** `isAwake` tells whether a run of the conversation goes on, `identity` who commits in a repository that is made here. */
  constructor(
    sandboxes: Sandboxes,
    row: Pick<ConversationRow, "id" | "sandboxId" | "config">,
    isAwake: () => boolean,
    identity: () => GitIdentity,
  ) {
    this.#sandboxes = sandboxes;
    this.#conversationId = row.id;
    this.#sandboxId = row.sandboxId;
    this.#config = row.config;
    this.#identity = identity;
    this.#release = sandboxes.acquire(row.sandboxId, {
      busy: () => isAwake() || this.#terminal?.terminal.isBusy === true,
      beforeStop: async () => this.#terminal?.terminal.saveState(),
    });
  }

  /**
   * The running, prepared sandbox; waits for its start and wakes a paused one, after `mayWake` where that is given (see `Sandboxes.running`).
   * Throws SandboxFailed, SandboxNotFound.
   */
  async sandbox(mayWake?: () => Promise<void>): Promise<Sandbox> {
    await this.#blocked;
    const sandbox = await this.#sandboxes.running(this.#sandboxId, mayWake);
    if (this.#prepared?.incarnation !== sandbox.incarnation) {
      const done = prepare(sandbox, this.#config, this.#identity());
      this.#prepared = { incarnation: sandbox.incarnation, done };
      done.catch(() => {
        if (this.#prepared?.done === done) this.#prepared = undefined;
      });
    }
    await this.#prepared.done;
    return sandbox;
  }

  /** For what a run does: who pauses the sandbox under it does not want that the call that just begins wakes it again. */
  #runSandbox(): Promise<Sandbox> {
    return this.sandbox(() => this.pauseGate.wait());
  }

  async terminal(): Promise<Terminal> {
    const sandbox = await this.#runSandbox();
    if (this.#terminal?.incarnation !== sandbox.incarnation) {
      this.closeTerminal();
      const stateFile = `/tmp/terminal_output/shell_${hexId(this.#conversationId)}`;
      const terminal = openTerminal(sandbox, { cwd: this.#config.workingDir, stateFile });
      this.#terminal = { incarnation: sandbox.incarnation, terminal };
    }
    return this.#terminal.terminal;
  }

  async browser(): Promise<Browser> {
    const sandbox = await this.#runSandbox();
    if (this.#browser?.incarnation !== sandbox.incarnation) {
      this.#browser?.browser.release();
      const connect = async (port: number) => {
        await this.#runSandbox();
        return this.#sandboxes.connect(this.#sandboxId, port);
      };
      const browser = new Browser({ sandbox, connect, dir: `/tmp/browser_${hexId(this.#conversationId)}` });
      this.#browser = { incarnation: sandbox.incarnation, browser };
    }
    return this.#browser.browser;
  }

  toolContext(): Omit<ToolContext, "signal" | "actionId"> {
    return {
      conversationId: this.#conversationId,
      sandbox: () => this.#runSandbox(),
      terminal: () => this.terminal(),
      browser: () => this.browser(),
      workingDir: this.#config.workingDir,
      planPath: planPathOf(this.#config),
      memory: this.#memory,
    };
  }

  /** What the tools remember is of another branch, and where the files were replaced, the shell stands in folders that are gone. */
  async rewind(filesReplaced: boolean): Promise<void> {
    this.#memory.clear();
    const terminal = this.#terminal?.terminal;
    if (!filesReplaced || !terminal || terminal.isBusy) return;
    const command = `cd -- "$PWD" 2>/dev/null || cd -- '${this.#config.workingDir.replaceAll("'", "'\\''")}'`;
    // A shell that does not answer is no reason to fail: the next command tells.
    await terminal
      .run({ kind: "TerminalAction", command, is_input: false, reset: false }, AbortSignal.timeout(5_000))
      .catch(() => {});
  }

  /** Gives the next command a new shell, which has the variables of secrets that came meanwhile, and what the old one kept. One that is busy stays. */
  async renewShell(): Promise<void> {
    const terminal = this.#terminal?.terminal;
    if (!terminal || terminal.isBusy) return;
    await terminal.saveState();
    if (!terminal.isBusy && this.#terminal?.terminal === terminal) this.closeTerminal();
  }

  /** Lets everybody wait for the sandbox until the returned function is called. */
  block(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const held = this.#blocked ? this.#blocked.then(() => promise) : promise;
    this.#blocked = held;
    void held.then(() => {
      if (this.#blocked === held) this.#blocked = undefined;
    });
    return resolve;
  }

  /** Nobody would miss it: another one can be made at any time, which goes on where this one was. */
  get isIdle(): boolean {
    return this.#blocked === undefined && this.#terminal?.terminal.isLive !== true;
  }

  /** Lets go of the sandbox. The browser goes on in it, unless the conversation is gone: then it ends. */
  close({ removed = false } = {}): void {
    this.#release();
    this.closeTerminal();
    if (removed) void this.#browser?.browser.end();
    else this.#browser?.browser.release();
    this.#browser = undefined;
  }

  closeTerminal(): void {
    this.#terminal?.terminal.close();
    this.#terminal = undefined;
  }
}

async function prepare(
  sandbox: Sandbox,
  config: ConversationRow["config"],
  { name, email }: GitIdentity,
): Promise<void> {
  const { workingDir } = config;
  // What a clone is to be made of stays empty, and a worktree has its repository.
  const kind = config.selectedRepository || config.worktree ? "plain" : "repository";
  const argv = ["sh", "-c", prepareScript, "sh", workingDir, kind, name, email];
  const { code, stderr } = await runToEnd(sandbox, { argv, cwd: "/" }, { timeoutMs: prepareTimeout });
  if (code === 0) return;
  throw new PlatformError(
    "SandboxFailed",
    `The working folder ${workingDir} could not be made: ${stderr.toString().trim()}`,
  );
}
