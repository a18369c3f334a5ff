import { join, resolve } from "node:path";
import type { ExecutionStatus } from "@sandpiper/wire";
import { ask, canAsk } from "./ask.ts";
import { Changes, checkFolder, type Patch } from "./changes.ts";
import type { Client } from "./client.ts";
import { confirm } from "./confirm.ts";
import { connect } from "./connect.ts";
import { CliError, exitCodes } from "./errors.ts";
import { runGit } from "./git.ts";
import { inertLine } from "./inert.ts";
import { getInvoker } from "./invoker.ts";
import { formatUsage, Progress } from "./progress.ts";
import { onStop } from "./signals.ts";
import { createPaint, formatDuration } from "./style.ts";
import { collectChanges, followTask, prepareTask, type Task, type TaskRun } from "./task.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";

export interface RunCommandOptions {
  dir?: string;
  repo?: string;
  model?: string;
  apply?: boolean;
  yes?: boolean;
  keep?: boolean;
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
  const clone = options.repo ? await createTemporaryFolder("clone", getInvoker()) : undefined;
  try {
    const folder = clone ? await cloneInto(clone.path, options.repo!) : resolve(options.dir ?? ".");
    await checkFolder(folder);
    const connection = await connect({ works: true });
    try {
      return await work(connection.client, { folder, text, model: options.model }, options);
    } finally {
      await connection.close();
    }
  } finally {
    await clone?.remove();
  }
}

async function work(client: Client, task: Task, options: RunCommandOptions): Promise<number> {
  const paint = createPaint(process.stderr);
  const user = getInvoker();
  const progress = new Progress(process.stderr, paint, "starts a sandbox");
  const abort = new AbortController();
  let started: TaskRun | undefined;
  let interrupted = false;
  const restore = onStop(() => {
    interrupted = true;
    progress.print(paint("yellow", "Interrupting the agent; a second Ctrl-C quits at once."));
    // Before the conversation exists, abort at once.
    if (started?.conversationId)
      client.interrupt(started.conversationId).catch((error) => abort.abort(error));
    else abort.abort(new CliError("Interrupted.", { exitCode: exitCodes.interrupted }));
  });
  let changes: Changes | undefined;
  try {
    changes = await Changes.since(task.folder, user);
    started = await prepareTask(client, task, abort.signal);
    const { sandboxStart, upload } = started.timings;
    progress.print(
      paint(
        "dim",
        `sandbox started in ${formatDuration(sandboxStart)}, folder copied in ${formatDuration(upload)}`,
      ),
    );
    progress.doing("asks the model");
    const status = await followTask(client, task, started, (event) => progress.event(event), {
      signal: abort.signal,
      onStart: (id) => progress.print(paint("dim", `conversation ${id}`)),
      ...(canAsk() && { confirm: (id) => progress.without(() => confirm(client, id, paint)) }),
    });
    progress.doing("fetches the changes");
    const patch = await collectChanges(client, started, changes);
    progress.stop();
    process.stderr.write(
      `${paint("bold", `The run ${endings[status] ?? `is ${inertLine(status)}`}`)} after ${formatDuration(progress.elapsed)}: ${formatUsage(progress.usage)}\n`,
    );
    await show(patch);
    const applied =
      patch && options.apply ? await applyPatch(changes, patch, task.folder, options.yes === true) : false;
    if (patch && !applied && process.stdout.isTTY && !options.repo)
      process.stderr.write(
        `The folder ${inertLine(task.folder)} is unchanged; --apply applies the changes.\n`,
      );
    return interrupted ? exitCodes.interrupted : status === "finished" ? exitCodes.ok : exitCodes.failed;
  } catch (error) {
    if (!task.model && /^No model is configured/.test((error as Error).message))
      throw new CliError(`${(error as Error).message} For one run, use --model.`, { cause: error });
    throw error;
  } finally {
    progress.stop();
    restore();
    await changes?.close();
    if (started && options.keep)
      process.stderr.write(`The sandbox ${inertLine(started.sandbox.id)} keeps running.\n`);
    else if (started) await client.deleteSandbox(started.sandbox.id).catch(() => {});
  }
}

async function show(patch: Patch | undefined): Promise<void> {
  if (!patch) {
    process.stderr.write("Nothing changed.\n");
    return;
  }
  process.stdout.write(
    process.stdout.isTTY ? await patch.display(createPaint(process.stdout)) : await patch.text(),
  );
}

/** Returns whether the patch was applied. */
async function applyPatch(changes: Changes, patch: Patch, folder: string, yes: boolean): Promise<boolean> {
  if (!yes && process.stdin.isTTY) {
    const answer = await ask(`Apply these changes to ${inertLine(folder)}? [y/N] `);
    if (!/^y(es)?$/i.test(answer ?? "")) return false;
  }
  await changes.apply(patch);
  process.stderr.write(`Applied to ${inertLine(folder)}.\n`);
  return true;
}

/** Clones as the user, with the user's git and credentials. */
async function cloneInto(parent: string, repo: string): Promise<string> {
  const folder = join(parent, "repository");
  await runGit(["clone", "--quiet", "--", repo, folder], { user: getInvoker(), stderr: "inherit" });
  return folder;
}
