import { join, resolve } from "node:path";
import type { Event, ExecutionStatus } from "@sandpiper/wire";
import { canAsk } from "./ask.ts";
import { Changes, checkFolder } from "./changes.ts";
import type { Client } from "./client.ts";
import { confirm } from "./confirm.ts";
import { checkServerVariables, connect } from "./connect.ts";
import { type CopySource, readSource } from "./copy-source.ts";
import { CliError, exitCodes } from "./errors.ts";
import { runGit } from "./git.ts";
import { withoutUsers } from "./git-credentials.ts";
import { handOver } from "./hand-over.ts";
import { inertLine } from "./inert.ts";
import { Interruption } from "./interruption.ts";
import { getInvoker } from "./invoker.ts";
import { JsonOutput } from "./json-output.ts";
import { LiveOutput } from "./live-output.ts";
import { describeRefusals, lastDecision } from "./network-refusals.ts";
import { formatNotes } from "./notes.ts";
import { formatUsage, Progress } from "./progress.ts";
import { describeEnvironments } from "./python-environments.ts";
import { findAnswer } from "./show.ts";
import { StreamedText } from "./streamed-text.ts";
import { createPaint, formatDuration, type Paint } from "./style.ts";
import { collectChanges, followTask, prepareTask, type Task, type TaskRun } from "./task.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";
import { askTrust } from "./trust.ts";
import { checkWorkOptions, toEndpoint, toSandboxRequest, usage, type WorkOptions } from "./work-options.ts";
import { continueWork, leaveSandbox, workTags } from "./workspace.ts";

export interface RunCommandOptions extends WorkOptions {
  apply?: boolean;
  merge?: boolean;
  yes?: boolean;
  keep?: boolean;
  /** Delete the sandbox at the end. */
  rm?: boolean;
  json?: boolean;
}

/** Messages for statuses that need an explanation. */
const endings: Partial<Record<ExecutionStatus, string>> = {
  error: "ended with an error",
  stuck: "was stopped because the agent repeated itself",
  idle: "ended with your rejection",
  waiting_for_confirmation:
    "waits for a confirmation (confirmation_mode of the settings), which sandpiper chat --continue asks for,",
};

/**
 * `sandpiper run`: an agent works on a copy of a folder. Progress goes to standard error, the diff,
 * or with `json` one object a line, to standard output. Returns the exit code.
 */
export async function run(text: string, options: RunCommandOptions): Promise<number> {
  if (!text.trim()) throw usage("The task is empty: describe what the agent should do.");
  checkWorkOptions(options);
  if (options.merge && !options.apply) throw usage("--merge needs --apply.");
  if (options.keep && options.rm) throw usage("Give --keep or --rm, not both.");
  checkServerVariables();
  const sandbox = toSandboxRequest(options);
  if (options.repo && options.apply)
    throw usage("--apply needs a local folder: clone the repository and use --dir.");
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
        const { model, maxCost } = options;
        const task = {
          ...{ folder: source.root, source, text: text + source.place },
          ...{ model, sandbox, endpoint: toEndpoint(options), maxCost },
        };
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
  const json = options.json ? new JsonOutput() : undefined;
  const toPeople = makeShow(progress, paint);
  let lacksKey = false;
  const show = (event: Event) => {
    lacksKey ||= event.kind === "ConversationErrorEvent" && event.code === "ModelNotConfigured";
    json?.event(event);
    toPeople(event);
  };
  // The server and later runs know the repository without its password.
  const repo = options.repo && withoutUsers(options.repo);
  const place = repo ?? task.folder;
  try {
    changes = await Changes.since(task.folder, user, signal, task.source.includes);
    progress.doing("starts a sandbox");
    const tags = workTags(place, changes.tree, keep);
    const onStep = (text: string) => progress.doing(text);
    const continued =
      options.continue && (await continueWork(client, options.continue, place, changes, signal));
    started = continued ? continued.run : await prepareTask(client, { ...task, tags }, { signal, onStep });
    const { sandboxStart, upload } = started.timings;
    progress.print(
      paint(
        "dim",
        `sandbox started in ${formatDuration(sandboxStart)}, folder copied in ${formatDuration(upload)}`,
      ),
    );
    const notes = continued
      ? continued.notes
      : await describeEnvironments(client, started, task.source.environments);
    progress.print(...formatNotes(notes));
    const origin = (repo ?? `folder ${task.folder}`).slice(0, 1000);
    const { trust } = options;
    await progress.without(() => askTrust(client, started!, origin, { trust, paint }));
    progress.doing("starts the conversation");
    const decided = await lastDecision(client, started.sandbox.id);
    interruption.gently = () => interrupt(client, started!, progress, interruption);
    const run = started;
    const status = await followTask(client, { ...task, tags }, run, show, {
      signal,
      onStart: (id) => {
        json?.start({ conversation: id, sandbox: run.sandbox.id, server: client.url });
        progress.print(paint("dim", `conversation ${inertLine(id)}`));
      },
      ...(canAsk() && { confirm: (id) => progress.without(() => confirm(client, id, paint)) }),
    });
    progress.print(...formatNotes(await describeRefusals(client, run.sandbox.id, decided)));
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
    if (lacksKey && task.endpoint?.baseUrl && !task.endpoint.apiKey)
      process.stderr.write("The key for --base-url is taken from LLM_API_KEY, which is not set.\n");
    const outcome = await handOver(changes, patch, {
      folder: task.folder,
      user,
      isOwn: !options.repo,
      interrupted: interruption.exitCode !== undefined,
      shows: !json,
      apply: options.apply === true,
      yes: options.yes === true,
      merge: options.merge === true,
    });
    const code = exitCode(status === "finished" && outcome !== "conflicts", interruption);
    json?.result({
      ...{ status, exit_code: code, seconds: progress.elapsed / 1000, ...progress.usage },
      answer: findAnswer(await client.events(run.conversationId!)) ?? null,
      patch: patch ? (await patch.text()).toString() : null,
      applied: outcome === "applied",
    });
    return code;
  } catch (error) {
    if (!task.model && /^No model is configured/.test((error as Error).message))
      (error as Error).message += " For one run, use --model.";
    throw error;
  } finally {
    progress.stop();
    await changes?.close();
    if (started && keep)
      process.stderr.write(`The sandbox ${inertLine(started.sandbox.id)} keeps running.\n`);
    else if (started) await leaveSandbox(client, started, { place, remove: options.rm === true });
  }
}

function exitCode(isDone: boolean, interruption: Interruption): number {
  return interruption.exitCode ?? (isDone ? exitCodes.ok : exitCodes.failed);
}

/** On a terminal, shows the agent's text and the output of commands as they arrive. */
function makeShow(progress: Progress, paint: Paint): (event: Event) => void {
  if (!process.stderr.isTTY) return (event) => progress.event(event);
  const print = (...lines: string[]) => progress.print(...lines);
  const columns = () => process.stderr.columns || 100;
  const live = new LiveOutput({ print, columns });
  const text = new StreamedText({
    ...{ paint, print, columns },
    onPartial: (line) => progress.doing(line || "asks the model"),
    elapsed: () => progress.elapsed,
  });
  return (event) => {
    const rest = text.take(live.take(event));
    if (rest) progress.event(rest);
  };
}

/** Stops the agent; the run then ends with its changes so far. Before there is one, all ends. */
function interrupt(
  client: Client,
  { conversationId }: TaskRun,
  progress: Progress,
  interruption: Interruption,
): void {
  if (!conversationId) {
    interruption.abort(interruption.reason);
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
  }).catch((error: Error) => {
    signal.throwIfAborted();
    if (!/^git clone failed/.test(error.message)) throw error;
    throw new CliError(`${repo} was not cloned: git says why above.`, { cause: error });
  });
  return folder;
}
