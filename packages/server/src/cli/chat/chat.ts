import { resolve } from "node:path";
import type { ExecutionStatus } from "@sandpiper/wire";
import { canAsk } from "../ask.ts";
import { Changes, checkFolder } from "../changes.ts";
import type { Client } from "../client.ts";
import { confirm } from "../confirm.ts";
import { connect } from "../connect.ts";
import { shortId } from "../conversations.ts";
import { type CopySource, readSource } from "../copy-source.ts";
import { CliError, exitCodes } from "../errors.ts";
import { inertLine } from "../inert.ts";
import { Interruption } from "../interruption.ts";
import { getInvoker } from "../invoker.ts";
import { cut, wrap } from "../lines.ts";
import { LiveOutput } from "../live-output.ts";
import { formatNotes, formatSentence } from "../notes.ts";
import { printEvent } from "../print-event.ts";
import { formatUsage, toUsage, type Usage } from "../progress.ts";
import { describeEnvironments } from "../python-environments.ts";
import { exitCodeOf, Interrupted } from "../signals.ts";
import { StreamedText } from "../streamed-text.ts";
import { createPaint } from "../style.ts";
import { prepareTask, type TaskRun } from "../task.ts";
import { askTrust } from "../trust.ts";
import { checkWorkOptions, toEndpoint, toSandboxRequest, type WorkOptions } from "../work-options.ts";
import { continueWork, leaveSandbox, workTags } from "../workspace.ts";
import { completeCommand, runCommand } from "./commands.ts";
import { Editor, type Input } from "./editor.ts";
import { readHistory, writeHistory } from "./history.ts";
import { completeMention } from "./mentions.ts";
import { type ChatTask, Session } from "./session.ts";

const prompts = { idle: "> ", working: "… > " } as const;

/** `sandpiper chat`: an interactive session on a copy of a folder. Returns the exit code. */
export async function chat(options: WorkOptions): Promise<number> {
  if (!canAsk() || !process.stdout.isTTY)
    throw new CliError('chat needs a terminal; use sandpiper run "<task>" in scripts.', {
      exitCode: exitCodes.usage,
    });
  checkWorkOptions(options);
  if (options.repo) throw new CliError("chat works on a folder: clone the repository, and use --dir.");
  const folder = resolve(options.dir ?? ".");
  await checkFolder(folder);
  const source = await readWhole(folder, options);
  const { model, maxCost } = options;
  const task: ChatTask = {
    ...{ folder: source.root, source, text: "", model, maxCost, own: folder },
    ...{ sandbox: toSandboxRequest(options), endpoint: toEndpoint(options) },
  };
  const { client, close } = await connect({ works: true });
  try {
    const { run, changes } = await prepare(client, task, options);
    try {
      return await new Chat(client, task, run, changes).ended;
    } finally {
      await leaveSandbox(client, run, { place: task.folder, remove: false });
      if (run.conversationId)
        process.stderr.write(`Continue with: sandpiper chat --continue ${shortId(run.conversationId)}\n`);
    }
  } finally {
    await close();
    await source.close();
  }
}

function readWhole(folder: string, options: WorkOptions): Promise<CopySource> {
  const interruption = new Interruption();
  return interruption.during(() => readSource(folder, options, interruption.signal));
}

async function prepare(
  client: Client,
  task: ChatTask,
  options: WorkOptions,
): Promise<{ run: TaskRun; changes: Changes }> {
  const interruption = new Interruption();
  return interruption.during(async () => {
    const { signal } = interruption;
    const say = (step: string) => {
      const [text] = cut(`${step} …`, Math.max((process.stderr.columns || 80) - 1, 10));
      process.stderr.write(`\r\x1b[K${text}`);
    };
    say("reads the folder");
    const changes = await Changes.since(task.folder, getInvoker(), signal, task.source.includes);
    let run: TaskRun | undefined;
    try {
      say("starts a sandbox");
      task.tags = workTags(task.folder, changes.tree, false);
      const continued =
        options.continue && (await continueWork(client, options.continue, task.folder, changes, signal));
      run = continued ? continued.run : await prepareTask(client, task, { signal, onStep: say });
      process.stderr.write("\r\x1b[K");
      const notes = continued
        ? continued.notes
        : await describeEnvironments(client, run, task.source.environments);
      if (notes.length > 0) process.stderr.write(`${formatNotes(notes).join("\n")}\n`);
      const origin = `folder ${task.folder}`.slice(0, 1000);
      await askTrust(client, run, origin, { trust: options.trust, paint: createPaint(process.stderr) });
      return { run, changes };
    } catch (error) {
      process.stderr.write("\r\x1b[K");
      if (run) await leaveSandbox(client, run, { place: task.folder, remove: false });
      await changes.close();
      throw error;
    }
  });
}

/** A signal at a question stops the agent; it ends no session by itself. */
function orStop(error: Error): false {
  if (error instanceof Interrupted) return false;
  throw error;
}

/** Connects the prompt with the session. */
class Chat {
  /** Resolves at the end of the session, with the exit code. */
  readonly ended: Promise<number>;
  readonly #paint = createPaint(process.stdout);
  readonly #began = performance.now();
  readonly #text: StreamedText;
  readonly #session: Session;
  #editor!: Editor;
  #usage: Usage = { tokens: 0, cost: 0 };
  #end: (code?: number) => void = () => {};
  #endsAtInterrupt = false;
  /** Inputs are handled one after the other. */
  #queue: Promise<void> = Promise.resolve();

  constructor(client: Client, task: ChatTask, run: TaskRun, changes: Changes) {
    const print = (...lines: string[]) => this.#editor.print(...lines);
    const elapsed = () => performance.now() - this.#began;
    const columns = () => process.stdout.columns || 100;
    this.#text = new StreamedText({ paint: this.#paint, print, elapsed, columns });
    const live = new LiveOutput({ print, columns });
    this.#session = new Session({
      ...{ client, task, run, changes },
      events: {
        onEvent: (event) => {
          this.#usage = toUsage(event) ?? this.#usage;
          // The person has just typed it.
          if (event.kind === "MessageEvent" && event.source === "user") return;
          const rest = this.#text.take(live.take(event));
          const options = { elapsed: elapsed(), columns: columns(), paint: this.#paint };
          const lines = rest ? printEvent(rest, options) : [];
          if (lines.length > 0) print(...lines);
        },
        confirm: (id) => this.#editor.without(() => confirm(client, id, this.#paint)).catch(orStop),
        onEnd: (status) => this.#onEnd(status),
        onError: (error) => this.#fail(error),
      },
    });
    this.ended = this.#run(task.own);
  }

  async #run(folder: string): Promise<number> {
    const ended = new Promise<number>((done) => {
      this.#end = (code = exitCodes.ok) => done(code);
    });
    const intro = `Works on a copy of ${folder}. /help lists commands, @path sends a file, Ctrl-C stops the agent.`;
    const lines = wrap(inertLine(intro), Math.max((process.stdout.columns || 100) - 1, 20));
    process.stdout.write(`${this.#paint("dim", lines.join("\n"))}\n`);
    // The end of a terminal is an error of its input, too, which may come before SIGHUP.
    process.stdin.on("error", () => this.#end(exitCodeOf("SIGHUP")));
    this.#editor = new Editor({
      history: await readHistory(),
      complete: (line) => completeMention(folder, line) ?? completeCommand(line),
      onInput: (input) => {
        this.#queue = this.#queue.then(() => this.#handle(input)).catch((error: Error) => this.#fail(error));
      },
    });
    this.#queue = this.#session.takeUp().catch((error: Error) => this.#fail(error));
    // Questions about actions have the terminal for themselves; there Ctrl-C is a signal.
    const stop = () => void this.#session.interrupt().catch(() => {});
    const end = (signal: NodeJS.Signals) => this.#end(exitCodeOf(signal));
    process.on("SIGINT", stop).on("SIGTERM", end).on("SIGHUP", end);
    try {
      return await ended;
    } finally {
      // The end of a terminal sends SIGHUP several times: its listener stays.
      process.off("SIGINT", stop).off("SIGTERM", end);
      this.#editor.close();
      await writeHistory(this.#editor.history);
      await this.#session.close();
    }
  }

  async #handle(input: Input): Promise<void> {
    // Ctrl-D is a key; the input itself ends only with its terminal.
    if (input.kind === "end")
      return this.#end(process.stdin.readableEnded ? exitCodeOf("SIGHUP") : exitCodes.ok);
    if (input.kind === "interrupt") return this.#interrupt();
    this.#endsAtInterrupt = false;
    if (input.text.startsWith("/") && !input.text.startsWith("//")) {
      const shown = { editor: this.#editor, paint: this.#paint, usage: this.#usage, end: this.#end };
      await runCommand(input.text, this.#session, shown);
      return;
    }
    const queued = this.#session.isRunning;
    await this.#session.send(input.text.replace(/^\/\//, "/"), input.pasted);
    if (queued) this.#editor.print(this.#paint("dim", "The agent reads this before its next step."));
    if (this.#session.isRunning) this.#editor.setPrompt(prompts.working);
  }

  async #interrupt(): Promise<void> {
    if (this.#session.isRunning) {
      await this.#session.interrupt();
      this.#editor.print(this.#paint("yellow", "Stopping the agent …"));
    } else if (this.#endsAtInterrupt) this.#end();
    else {
      this.#endsAtInterrupt = true;
      this.#editor.print(this.#paint("dim", "Ctrl-C again, Ctrl-D or /exit ends the session."));
    }
  }

  #onEnd(status: ExecutionStatus): void {
    const ends = status === "finished" ? "" : `${inertLine(status.replaceAll("_", " "))}, `;
    this.#editor.setPrompt(prompts.idle);
    this.#editor.print(this.#paint("dim", `${ends}${formatUsage(this.#usage)}`));
  }

  #fail(error: Error): void {
    this.#editor.setPrompt(prompts.idle);
    this.#editor.print(this.#paint("red", formatSentence(error.message, process.stdout)));
  }
}
