import { Readable } from "node:stream";
import type { AppConversation, Event, ExecutionStatus, SandboxInfo } from "@sandpiper/wire";
import type { Changes, Patch } from "./changes.ts";
import type { Client } from "./client.ts";
import type { CopySource } from "./copy-source.ts";
import { extractTar } from "./extract.ts";
import { followRun } from "./follow.ts";
import { formatBytes } from "./style.ts";
import { packFolder } from "./tree.ts";
import type { ModelEndpoint, SandboxRequest } from "./work-options.ts";

/** The tag of a conversation with the path of its folder in the sandbox. */
const workingDirTag = "cli.dir";

export interface Task {
  folder: string;
  /** What of the folder is copied; default: all of it. */
  source?: Pick<CopySource, "parts" | "workingDir" | "bytes">;
  text: string;
  model: string | undefined;
  /** What the sandbox is made of; default: the user's settings. */
  sandbox?: SandboxRequest;
  /** Where the model is; default: the user's settings, or the provider of the model. */
  endpoint?: ModelEndpoint;
  /** Budget of the conversation, USD. */
  maxCost?: number | undefined;
  tags?: Record<string, string>;
}

/** Milliseconds. */
export interface Timings {
  sandboxStart: number;
  upload: number;
  /** From the request for the conversation to its end. */
  run: number;
}

/** A sandbox with a copy of a folder in it, and the conversation that works there. */
export interface TaskRun {
  sandbox: SandboxInfo;
  workingDir: string;
  timings: Timings;
  conversationId: string | undefined;
  /** Ids of events that are known already. */
  seen: Set<string>;
}

/**
 * Checks the model, then starts a sandbox with a copy of the folder; removes it when the upload
 * fails. `onStep` gets what it does now.
 */
export async function prepareTask(
  client: Client,
  task: Task,
  { signal, onStep }: { signal?: AbortSignal; onStep?: (text: string) => void } = {},
): Promise<TaskRun> {
  onStep?.("checks the model");
  await client.checkModel(task.model, task.endpoint, signal);
  onStep?.("starts a sandbox");
  const begin = performance.now();
  const {
    workingDir: wanted,
    parts = [{ from: task.folder, to: "." }],
    bytes = 0,
  }: Partial<CopySource> = task.source ?? {};
  const sandbox = await client.startSandbox({ ...task.sandbox, workingDir: wanted }, signal);
  const started = performance.now();
  try {
    const workingDir = wanted ?? (await client.workingDir(sandbox.sandbox_spec_id));
    let copied = 0;
    const count = (more: number) => {
      copied += more;
      onStep?.(`copies the folder: ${formatBytes(copied)} of ${formatBytes(Math.max(bytes, copied))}`);
    };
    for (const { from, to, includes } of parts)
      await client.upload(sandbox.id, to, Readable.from(counted(packFolder(from, includes), count)), signal);
    const timings = { sandboxStart: started - begin, upload: performance.now() - started, run: 0 };
    return { sandbox, workingDir, timings, conversationId: undefined, seen: new Set() };
  } catch (error) {
    await client.deleteSandbox(sandbox.id).catch(() => {});
    throw error;
  }
}

async function* counted(stream: Readable, count: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of stream) {
    count((chunk as Buffer).length);
    yield chunk as Buffer;
  }
}

/** Wakes the sandbox of a conversation to continue it. Throws CliError. */
export async function resumeTask(
  client: Client,
  { id, sandbox_id, tags: known }: Pick<AppConversation, "id" | "sandbox_id" | "tags">,
  signal?: AbortSignal,
): Promise<TaskRun> {
  const begin = performance.now();
  const sandbox = await client.resumeSandbox(sandbox_id, signal);
  const workingDir = known[workingDirTag] ?? (await client.workingDir(sandbox.sandbox_spec_id));
  const timings = { sandboxStart: performance.now() - begin, upload: 0, run: 0 };
  const seen = new Set((await client.events(id)).map((event) => event.id));
  return { sandbox, workingDir, timings, conversationId: id, seen };
}

/** Gives the agent its task, in a new conversation or in that of `run`; returns the id. */
export async function beginTask(
  client: Client,
  task: Task,
  run: TaskRun,
  signal?: AbortSignal,
): Promise<string> {
  const { model, endpoint, maxCost, tags, text } = task;
  const { conversationId } = run;
  // The first message waits for a model at an address of its own.
  const waits = endpoint?.baseUrl !== undefined;
  const id =
    conversationId ??
    (await client.startConversation(
      {
        sandbox_id: run.sandbox.id,
        ...(!waits && { initial_message: { role: "user", content: [{ type: "text", text }], run: true } }),
        ...(waits && { title: text.trim().split("\n")[0]!.slice(0, 100) }),
        ...(model && { llm_model: model }),
        ...(maxCost && { max_budget_per_task: maxCost }),
        ...(tags && { tags: { ...tags, [workingDirTag]: run.workingDir } }),
      },
      signal,
    ));
  run.conversationId = id;
  if (conversationId && maxCost)
    await client.json("PATCH", `/api/v1/app-conversations/${id}`, { json: { max_budget_per_task: maxCost } });
  if (model && (waits || conversationId)) await client.switchModel(id, { ...endpoint, model });
  if (waits || conversationId) await client.say(id, text);
  return id;
}

/**
 * Runs the task to its end. `confirm` answers confirmations and returns whether the run continues.
 */
export async function followTask(
  client: Client,
  task: Task,
  run: TaskRun,
  onEvent: (event: Event) => void,
  options: {
    signal?: AbortSignal;
    onStart?: (conversationId: string) => void;
    confirm?: (conversationId: string) => Promise<boolean>;
  } = {},
): Promise<ExecutionStatus> {
  const { signal, confirm } = options;
  const started = performance.now();
  const id = await beginTask(client, task, run, signal);
  options.onStart?.(id);
  const { seen } = run;
  let status = await followRun(client, id, onEvent, signal, seen);
  while (status === "waiting_for_confirmation" && confirm && (await confirm(id)))
    status = await followRun(client, id, onEvent, signal, seen);
  // A rejection ends the run.
  if (status === "waiting_for_confirmation")
    status = (await client.conversation(id)).execution_status ?? status;
  run.timings.run = performance.now() - started;
  return status;
}

/** The changes in the sandbox's copy, compared with the snapshot in `changes`. */
export async function collectChanges(
  client: Client,
  run: TaskRun,
  changes: Changes,
): Promise<Patch | undefined> {
  const fetch = async (without: readonly string[]) => {
    const target = await changes.target();
    await extractTar(await client.download(run.sandbox.id, ".", without), target);
    return changes.compare(target);
  };
  const ignored = await changes.ignored();
  const patch = await fetch(ignored);
  // What was ignored may now be the agent's work.
  const isRuled = patch?.changed.some((path) => /(?:^|\/)\.gitignore$/.test(path));
  return isRuled && ignored.length > 0 ? fetch([]) : patch;
}
