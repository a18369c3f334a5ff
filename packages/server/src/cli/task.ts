import { Readable } from "node:stream";
import type { Event, ExecutionStatus, SandboxInfo } from "@sandpiper/wire";
import type { Changes, Patch } from "./changes.ts";
import type { Client } from "./client.ts";
import type { CopySource } from "./copy-source.ts";
import { extractTar } from "./extract.ts";
import { followRun } from "./follow.ts";
import { formatBytes } from "./style.ts";
import { packFolder } from "./tree.ts";

export interface Task {
  folder: string;
  /** What of the folder is copied; default: all of it. */
  source?: Pick<CopySource, "parts" | "workingDir" | "bytes">;
  text: string;
  model: string | undefined;
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
}

/**
 * Starts a sandbox with a copy of the folder; removes it when the upload fails. `onStep` gets what
 * it does now.
 */
export async function prepareTask(
  client: Client,
  task: Task,
  { signal, onStep }: { signal?: AbortSignal; onStep?: (text: string) => void } = {},
): Promise<TaskRun> {
  const begin = performance.now();
  const {
    workingDir: wanted,
    parts = [{ from: task.folder, to: "." }],
    bytes = 0,
  }: Partial<CopySource> = task.source ?? {};
  const sandbox = await client.startSandbox(signal, wanted);
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
    return { sandbox, workingDir, timings, conversationId: undefined };
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
  const begin = performance.now();
  const id = await client.startConversation(
    {
      sandbox_id: run.sandbox.id,
      initial_message: { role: "user", content: [{ type: "text", text: task.text }], run: true },
      ...(task.model && { llm_model: task.model }),
    },
    signal,
  );
  run.conversationId = id;
  options.onStart?.(id);
  const seen = new Set<string>();
  let status = await followRun(client, id, onEvent, signal, seen);
  while (status === "waiting_for_confirmation" && confirm && (await confirm(id)))
    status = await followRun(client, id, onEvent, signal, seen);
  // A rejection ends the run.
  if (status === "waiting_for_confirmation")
    status = (await client.conversation(id)).execution_status ?? status;
  run.timings.run = performance.now() - begin;
  return status;
}

/** The changes in the sandbox's copy, compared with the snapshot in `changes`. */
export async function collectChanges(
  client: Client,
  run: TaskRun,
  changes: Changes,
): Promise<Patch | undefined> {
  const target = await changes.target();
  await extractTar(await client.download(run.sandbox.id, "."), target);
  return changes.compare(target);
}
