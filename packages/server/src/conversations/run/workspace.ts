import { Browser } from "@sandpiper/agent/browser/browser";
import { getPlanPath } from "@sandpiper/agent/prompt/planning";
import { terminalTool } from "@sandpiper/agent/tools/terminal";
import type { Tool, ToolContext } from "@sandpiper/agent/tools/tool";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { openTerminal, type Terminal } from "@sandpiper/sandbox/shell/terminal";
import { hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { GitIdentity } from "../project/clone.ts";
import { getHeldFolder } from "./held-shells.ts";
import { PauseGate } from "./sandbox-pause.ts";

/**
 * Creates the working folder, with a git repository if there is none (app-server.md section 2.4).
 */
const prepareScript = `mkdir -p -- "$1" && cd -- "$1" || exit 1
[ "$2" = plain ] || [ -e .git ] || ! command -v git >/dev/null 2>&1 ||
  { git init -q && git config user.name "$3" && git config user.email "$4"; } || :`;

/** Time for the preparation, ms. */
const prepareTimeout = 60_000;

export interface WorkspaceDeps {
  sandboxes: Sandboxes;
  /** Whether a run continues. */
  isAwake(): boolean;
  /** The author of commits in a created repository. */
  identity(): Promise<GitIdentity>;
  /** Returns the epoch of this server's ownership of the sandbox. Throws OwnershipLost. */
  epoch(): number;
  /** Called when the conversation begins to use a shell in the sandbox. */
  onTerminal(sandbox: Sandbox): void;
}

/**
 * One conversation's access to its sandbox: the ready sandbox, its shell and browser, and per-tool
 * state.
 */
export class ConversationWorkspace {
  readonly pauseGate = new PauseGate();
  readonly #deps: WorkspaceDeps;
  readonly #sandboxId: string;
  readonly #config: ConversationRow["config"];
  readonly #conversationId: string;
  readonly #memory = new Map<string, unknown>();
  readonly #release: () => void;
  /** Resolves when the sandbox is not blocked, for example by a start that clones the project. */
  #blocked: Promise<void> | undefined;
  #prepared: { incarnation: string; done: Promise<void> } | undefined;
  #terminal: { incarnation: string; terminal: Terminal } | undefined;
  /** Resolves when the last caller has its terminal. */
  #opening: Promise<unknown> = Promise.resolve();
  /** The end of the last terminal; the next terminal uses the same folder in the sandbox. */
  #closing: Promise<void> | undefined;
  /**
   * True when the shell that an earlier server has left lacks new secrets, or is in a replaced
   * folder.
   */
  #isShellOutdated = false;
  #browser: { incarnation: string; browser: Browser } | undefined;

  constructor(deps: WorkspaceDeps, row: Pick<ConversationRow, "id" | "sandboxId" | "config">) {
    this.#deps = deps;
    this.#conversationId = row.id;
    this.#sandboxId = row.sandboxId;
    this.#config = row.config;
    this.#release = deps.sandboxes.acquire(row.sandboxId, {
      busy: () => deps.isAwake() || this.#terminal?.terminal.isBusy === true,
      beforeStop: async () => this.#terminal?.terminal.saveState(),
    });
  }

  /**
   * The running, prepared sandbox; starts it or wakes a paused one, after `mayWake` (see
   * `Sandboxes.running`). Throws SandboxFailed, SandboxNotFound.
   */
  async sandbox(mayWake?: () => Promise<void>): Promise<Sandbox> {
    await this.#blocked;
    const sandbox = await this.#deps.sandboxes.running(this.#sandboxId, mayWake);
    if (this.#prepared?.incarnation !== sandbox.incarnation) {
      const done = this.#deps.identity().then((identity) => prepare(sandbox, this.#config, identity));
      this.#prepared = { incarnation: sandbox.incarnation, done };
      done.catch(() => {
        if (this.#prepared?.done === done) this.#prepared = undefined;
      });
    }
    await this.#prepared.done;
    return sandbox;
  }

  /**
   * The sandbox of a run. A run must not wake a sandbox that was just paused. The sandbox refuses
   * commands of this owner once an owner with a higher epoch has run one.
   */
  async runSandbox(): Promise<Sandbox> {
    const sandbox = await this.sandbox(() => this.pauseGate.wait());
    const fence = { key: hexId(this.#conversationId), epoch: this.#deps.epoch() };
    return { ...sandbox, exec: (command) => sandbox.exec({ ...command, fence }) };
  }

  /** The conversation's terminal. Callers at the same time get the same one. */
  async terminal(): Promise<Terminal> {
    const sandbox = await this.runSandbox();
    const opened = this.#opening.then(() => this.#openTerminal(sandbox));
    this.#opening = opened.catch(() => {});
    return opened;
  }

  async #openTerminal(sandbox: Sandbox): Promise<Terminal> {
    if (this.#terminal?.incarnation !== sandbox.incarnation) {
      this.closeTerminal();
      await this.#closing;
      const stateFile = `/tmp/terminal_output/shell_${hexId(this.#conversationId)}`;
      const held = {
        ...{ folder: getHeldFolder(this.#conversationId), epoch: this.#deps.epoch() },
        isOutdated: this.#isShellOutdated,
      };
      this.#isShellOutdated = false;
      const terminal = openTerminal(sandbox, { cwd: this.#config.workingDir, stateFile, held });
      this.#terminal = { incarnation: sandbox.incarnation, terminal };
      this.#deps.onTerminal(sandbox);
    }
    return this.#terminal.terminal;
  }

  /** Joins or opens the shell. Throws when the sandbox would have to be woken. */
  async #prepareTerminal(signal: AbortSignal): Promise<Terminal> {
    await this.sandbox(() => Promise.reject(new Error("the sandbox is paused")));
    const terminal = await this.terminal();
    await terminal.prepare(signal);
    return terminal;
  }

  /**
   * Opens the shell before the first command needs it, unless the sandbox would have to be woken
   * or no tool of the run needs the shell. Never rejects: the first command reports what is wrong.
   */
  async warmTerminal(tools: () => Promise<readonly Tool[]>, signal: AbortSignal): Promise<void> {
    try {
      if (!(await tools()).some(({ name }) => name === terminalTool.name)) return;
      await this.#prepareTerminal(signal);
    } catch {
      // The first command opens the shell again.
    }
  }

  /** Time since which the shell rests (monotonic clock, ms); undefined for a shell with work. */
  get shellRestsSince(): number | undefined {
    const terminal = this.#terminal?.terminal;
    return terminal?.isLive && !terminal.isBusy ? terminal.restsSince : undefined;
  }

  /**
   * Saves the state of a resting shell and ends the shell, also one that an earlier server has
   * left. Returns false when the shell works, has background jobs, or does not answer.
   */
  async endRestingShell(): Promise<boolean> {
    const terminal =
      this.#terminal?.terminal ?? (await this.#prepareTerminal(AbortSignal.timeout(prepareTimeout)));
    return terminal.endResting();
  }

  async browser(): Promise<Browser> {
    const sandbox = await this.runSandbox();
    if (this.#browser?.incarnation !== sandbox.incarnation) {
      this.#browser?.browser.release();
      const connect = async (port: number) => {
        await this.runSandbox();
        return this.#deps.sandboxes.connect(this.#sandboxId, port);
      };
      const browser = new Browser({ sandbox, connect, dir: `/tmp/browser_${hexId(this.#conversationId)}` });
      this.#browser = { incarnation: sandbox.incarnation, browser };
    }
    return this.#browser.browser;
  }

  toolContext(): Omit<ToolContext, "signal" | "actionId"> {
    return {
      conversationId: this.#conversationId,
      sandbox: () => this.runSandbox(),
      terminal: () => this.terminal(),
      browser: () => this.browser(),
      workingDir: this.#config.workingDir,
      planPath: getPlanPath(this.#config),
      memory: this.#memory,
    };
  }

  /**
   * Clears the state of tools, which belongs to another branch. A shell in a replaced folder enters
   * the new one.
   */
  async rewind(filesReplaced: boolean): Promise<void> {
    this.#memory.clear();
    const terminal = this.#terminal?.terminal;
    this.#isShellOutdated ||= filesReplaced && !terminal;
    if (!filesReplaced || !terminal || terminal.isBusy) return;
    const command = `cd -- "$PWD" 2>/dev/null || cd -- '${this.#config.workingDir.replaceAll("'", "'\\''")}'`;
    // A shell that does not answer shows this with the next command.
    await terminal
      .run({ kind: "TerminalAction", command, is_input: false, reset: false }, AbortSignal.timeout(5_000))
      .catch(() => {});
  }

  /**
   * Replaces an idle shell, so that the next command has new secrets as variables. The new shell
   * restores its state.
   */
  async renewShell(): Promise<void> {
    const terminal = this.#terminal?.terminal;
    this.#isShellOutdated ||= !terminal;
    if (!terminal || terminal.isBusy) return;
    await terminal.saveState();
    if (!terminal.isBusy && this.#terminal?.terminal === terminal) this.closeTerminal();
  }

  /** Blocks the sandbox for all callers until the returned function is called. */
  block(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const held = this.#blocked ? this.#blocked.then(() => promise) : promise;
    this.#blocked = held;
    void held.then(() => {
      if (this.#blocked === held) this.#blocked = undefined;
    });
    return resolve;
  }

  /** True when the workspace can be dropped and rebuilt later without losing state. */
  get isIdle(): boolean {
    return this.#blocked === undefined && this.#terminal?.terminal.isLive !== true;
  }

  /**
   * Releases the sandbox. Its browser and its shell keep running, unless the conversation was
   * removed.
   */
  close({ removed = false } = {}): void {
    this.#release();
    if (!removed) this.#terminal?.terminal.leave();
    this.closeTerminal();
    if (removed) void this.#browser?.browser.end();
    else this.#browser?.browser.release();
    this.#browser = undefined;
  }

  closeTerminal(): void {
    const closed = this.#terminal?.terminal.close().catch(() => {});
    this.#closing = closed;
    this.#terminal = undefined;
  }
}

async function prepare(
  sandbox: Sandbox,
  config: ConversationRow["config"],
  { name, email }: GitIdentity,
): Promise<void> {
  const { workingDir } = config;
  // A clone needs an empty folder, and a worktree has its repository.
  const kind = config.selectedRepository || config.worktree ? "plain" : "repository";
  const argv = ["sh", "-c", prepareScript, "sh", workingDir, kind, name, email];
  const { code, stderr } = await runToEnd(sandbox, { argv, cwd: "/" }, { timeoutMs: prepareTimeout });
  if (code === 0) return;
  throw new PlatformError("WorkingDirFailed", { dir: workingDir, reason: stderr.toString().trim() });
}
