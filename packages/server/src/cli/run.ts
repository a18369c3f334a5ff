import { join, resolve } from "node:path";
import type { ExecutionStatus } from "@sandpiper/wire";
import { canAsk } from "./ask.ts";
import { Changes, checkFolder } from "./changes.ts";
import type { Client } from "./client.ts";
import { confirm } from "./confirm.ts";
import { connect } from "./connect.ts";
import { type CopySource, readSource } from "./copy-source.ts";
import { CliError, exitCodes } from "./errors.ts";
import { runGit } from "./git.ts";
import { handOver } from "./hand-over.ts";
import { inertLine } from "./inert.ts";
import { Interruption } from "./interruption.ts";
import { getInvoker } from "./invoker.ts";
import { formatUsage, Progress } from "./progress.ts";
import { createPaint, formatDuration } from "./style.ts";
import { collectChanges, followTask, prepareTask, type Task, type TaskRun } from "./task.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";
import { askTrust } from "./trust.ts";

export interface RunCommandOptions {
  dir?: string;
  repo?: string;
  model?: string;
  apply?: boolean;
  merge?: boolean;
  secrets?: boolean;
  copyLimit?: string;
  yes?: boolean;
  keep?: boolean;
  trust?: boolean;
}

/** Messages for statuses that need an explanation. */
const endings: Partial<Record<ExecutionStatus, string>> = {
  error: "ended with an error",
  stuck: "was stopped because the agent repeated itself",
  idle: "ended with your rejection",
  waiting_for_confirmation:
    "waits for a confirmation (confirmation_mode of the settings); confirm it in another client",
};

/**
 * `sandpiper run`: an agent works on a copy of a folder. Progress goes to standard error, the diff
 * to standard output. Returns the exit code.
 */
export async function run(text: string, options: RunCommandOptions): Promise<number> {
  if (!text.trim())
    throw new CliError("The task is empty: describe what the agent should do.", {
      exitCode: exitCodes.usage,
    });
  if (options.dir && options.repo)
    throw new CliError("Give --dir or --repo, not both.", { exitCode: exitCodes.usage });
  if (options.repo && options.apply)
    throw new CliError("--apply needs a local folder: clone the repository and use --dir.", {
      exitCode: exitCodes.usage,
    });
  const interruption = new Interruption();
  return interruption.during(async () => {
    const { signal } = interruption;
    const clone = options.repo ? await createTemporaryFolder("clone", getInvoker()) : undefined;
    try {
      const folder = clone ? await cloneInto(clone.path, options.repo!, signal) : resolve(options.dir ?? ".");
      await checkFolder(folder);
      const source = await readSource(folder, options, signal);
      const connection = await connect({ works: true });
      try {
        signal.throwIfAborted();
        const task = { folder: source.root, text: text + source.place, model: options.model, source };
        return await work(connection.client, task, options, interruption);
      } finally {
        await connection.close();
        await source.close();
      }
    } finally {
      await clone?.remove();
    }
  });
}

async function work(
  client: Client,
  task: Task & { source: CopySource },
  options: RunCommandOptions,
  interruption: Interruption,
): Promise<number> {
  const paint = createPaint(process.stderr);
  const user = getInvoker();
  const { signal } = interruption;
  const progress = new Progress(process.stderr, paint, "reads the folder");
  let started: TaskRun | undefined;
  let changes: Changes | undefined;
  let keep = options.keep === true;
  try {
    changes = await Changes.since(task.folder, user, signal, task.source.includes);
    progress.doing("starts a sandbox");
    started = await prepareTask(client, task, { signal, onStep: (text) => progress.doing(text) });
    const { sandboxStart, upload } = started.timings;
    progress.print(
      paint(
        "dim",
        `sandbox started in ${formatDuration(sandboxStart)}, folder copied in ${formatDuration(upload)}`,
      ),
    );
    const origin = (options.repo ?? `folder ${task.folder}`).slice(0, 1000);
    const { trust } = options;
    await progress.without(() => askTrust(client, started!, origin, { trust, paint }));
    progress.doing("starts the conversation");
    interruption.gently = () => interrupt(client, started!, progress, interruption);
    const status = await followTask(client, task, started, (event) => progress.event(event), {
      signal,
      onStart: (id) => progress.print(paint("dim", `conversation ${inertLine(id)}`)),
      ...(canAsk() && { confirm: (id) => progress.without(() => confirm(client, id, paint)) }),
    });
    progress.doing("fetches the changes");
    const patch = await collectChanges(client, started, changes).catch((error: Error) => {
      keep = true;
      error.message += " The sandbox is kept, because it has the changes.";
      throw error;
    });
    progress.stop();
    process.stderr.write(
      `${paint("bold", `The run ${endings[status] ?? `is ${inertLine(status)}`}`)} after ${formatDuration(progress.elapsed)}: ${formatUsage(progress.usage)}\n`,
    );
    const complete = await handOver(changes, patch, {
      folder: task.folder,
      user,
      isOwn: !options.repo,
      apply: options.apply === true,
      yes: options.yes === true,
      merge: options.merge === true,
    });
    if (interruption.happened) return exitCodes.interrupted;
    return status === "finished" && complete ? exitCodes.ok : exitCodes.failed;
  } catch (error) {
    if (!task.model && /^No model is configured/.test((error as Error).message))
      throw new CliError(`${(error as Error).message} For one run, use --model.`, { cause: error });
    throw error;
  } finally {
    progress.stop();
    await changes?.close();
    if (started && keep)
      process.stderr.write(`The sandbox ${inertLine(started.sandbox.id)} keeps running.\n`);
    else if (started) await client.deleteSandbox(started.sandbox.id).catch(() => {});
  }
}

/** Stops the agent; the run then ends with its changes so far. Before there is one, all ends. */
function interrupt(
  client: Client,
  { conversationId }: TaskRun,
  progress: Progress,
  interruption: Interruption,
): void {
  if (!conversationId) {
    interruption.abort(new CliError("Interrupted.", { exitCode: exitCodes.interrupted }));
    return;
  }
  progress.print("Interrupting the agent; a second Ctrl-C quits at once.");
  client.interrupt(conversationId).catch((error: Error) => interruption.abort(error));
}

/** Clones as the user, with the user's git and credentials. */
async function cloneInto(parent: string, repo: string, signal: AbortSignal): Promise<string> {
  const folder = join(parent, "repository");
  await runGit(["clone", "--quiet", "--", repo, folder], {
    user: getInvoker(),
    stderr: "inherit",
    signal,
  });
  return folder;
}
