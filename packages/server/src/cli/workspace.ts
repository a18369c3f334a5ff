import { lstat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import type { AppConversation } from "@sandpiper/wire";
import type { Changes } from "./changes.ts";
import type { Client } from "./client.ts";
import { findConversation, lastConversation, listConversations, shortId, tags } from "./conversations.ts";
import { listPaths } from "./copy-plan.ts";
import { CliError } from "./errors.ts";
import { extractTar } from "./extract.ts";
import { getInvoker } from "./invoker.ts";
import { resumeTask, type TaskRun } from "./task.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";

/** Newest conversations among which those of a folder are searched for old sandboxes. */
const maxSearched = 200;

/**
 * Finds the conversation to continue and wakes its sandbox; `wanted`: an id, or true for the last
 * one of the folder. Throws CliError.
 */
async function findContinued(
  client: Client,
  wanted: string | true,
  folder: string,
): Promise<AppConversation> {
  const found =
    wanted === true ? await lastConversation(client, folder) : await findConversation(client, wanted);
  if (!found)
    throw new CliError(
      `No conversation worked on ${folder} yet: omit --continue, or give an id of "sandpiper ls".`,
    );
  if (found.sandbox_status === "MISSING")
    throw new CliError(
      `The conversation ${shortId(found.id)} cannot be continued: its sandbox is deleted. Start a new one without --continue.`,
    );
  return found;
}

/**
 * Wakes the sandbox of a conversation to continue it. Where the folder changed since its copy was
 * made, the changes count from the copy as it is now, so that they never undo the user's own; the
 * notes say so.
 */
export async function continueWork(
  client: Client,
  wanted: string | true,
  folder: string,
  changes: Changes,
  signal: AbortSignal,
): Promise<{ run: TaskRun; notes: string[] }> {
  const conversation = await findContinued(client, wanted, folder);
  try {
    const run = await resumeTask(client, conversation, signal);
    let notes: string[] = [];
    if (conversation.tags[tags.tree] !== changes.tree) {
      const copy = await createTemporaryFolder("copy", getInvoker());
      try {
        await extractTar(await client.download(run.sandbox.id, run.workingDir), copy.path);
        const differing = await changes.startFrom(copy.path);
        notes = await describeOwnChanges(folder, copy.path, differing, Date.parse(conversation.created_at));
      } finally {
        await copy.remove();
      }
    }
    signal.throwIfAborted();
    return { run, notes };
  } catch (error) {
    if (conversation.sandbox_status === "PAUSED")
      await client.pauseSandbox(conversation.sandbox_id).catch(() => {});
    throw error;
  }
}

/**
 * Says which of the paths that differ between a folder and its copy the user changed since a time,
 * and what happens to those changes. Changes that only the agent made are not named.
 */
async function describeOwnChanges(
  folder: string,
  copy: string,
  differing: readonly string[],
  since: number,
): Promise<string[]> {
  const rest =
    "The agent goes on in its copy without that, and the diff has only what it changes from now on.";
  // The files of a new clone say nothing about when they changed.
  if (!isAbsolute(folder)) return differing.length > 0 ? [`The repository changed since then. ${rest}`] : [];
  const own: string[] = [];
  for (const path of differing) {
    const mine = await lstat(join(folder, path)).catch(() => undefined);
    // A file that is gone from the folder but was copied has its old time in the copy.
    const copied = mine ? undefined : await lstat(join(copy, path)).catch(() => undefined);
    if (mine ? mine.ctimeMs > since : copied && copied.mtimeMs <= since) own.push(path);
  }
  return own.length > 0
    ? [`Your folder changed since the agent got its copy: ${listPaths(own)}. ${rest}`]
    : [];
}

/** Tags by which later commands find a conversation of this folder. */
export function workTags(folder: string, tree: string, keep: boolean): Record<string, string> {
  return { [tags.folder]: folder.slice(0, 1000), [tags.tree]: tree, ...(keep && { [tags.keep]: "true" }) };
}

/**
 * Pauses the sandbox of work that ended, so that it can be continued, and deletes those of earlier
 * work on the same folder, so that one remains.
 */
async function restSandbox(
  client: Client,
  { sandboxId, folder }: { sandboxId: string; folder: string },
): Promise<void> {
  await client.pauseSandbox(sandboxId);
  let searched = 0;
  for await (const one of listConversations(client)) {
    if (++searched > maxSearched) return;
    const isOld = one.tags[tags.folder] === folder && one.sandbox_id !== sandboxId;
    // Another command that works on the folder now has its sandbox awake until its end.
    const isUnused = one.sandbox_status === "PAUSED" || one.sandbox_status === "ERROR";
    if (isOld && isUnused && !one.tags[tags.keep]) await client.deleteSandbox(one.sandbox_id);
  }
}

/** Leaves a sandbox that can be continued, unless there is nothing to continue. */
export async function leaveSandbox(
  client: Client,
  { sandbox, conversationId }: TaskRun,
  { place, remove }: { place: string; remove: boolean },
): Promise<void> {
  const end =
    remove || !conversationId
      ? client.deleteSandbox(sandbox.id)
      : restSandbox(client, { sandboxId: sandbox.id, folder: place });
  await end.catch(() => {});
}
