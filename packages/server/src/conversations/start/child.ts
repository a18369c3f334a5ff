import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { StartChildRequest } from "@sandpiper/wire";
import { newId, textContent } from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets } from "../../users/api.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import type { StartedChild } from "../api.ts";
import type { PendingMessages } from "../commands/pending.ts";
import { makeTitle, parseContent } from "../log/messages.ts";
import { toForkContext } from "../project/project-context.ts";
import { createWorktree, removeWorktree } from "../project/worktree.ts";

export interface ChildDeps {
  store: Pick<Store, "conversations" | "contexts" | "agents" | "conversationSecrets">;
  sandboxes: Pick<Sandboxes, "get" | "running">;
  secrets: Pick<Secrets, "newConversation">;
  callbacks: Pick<Callbacks, "rowsOf">;
  masks: Pick<OutputMasks, "forUser">;
  pending: Pick<PendingMessages, "deliverFirst">;
}

/**
 * Creates a conversation below another one, with its agent, configuration, tags and secrets, and
 * runs it with a task (agent-server-1.58.md section 3.3). With the isolation `worktree` it works in
 * a worktree of the parent's folder, which it shares if that is no repository with a commit. Throws
 * SandboxFailed, GitFailed, InvalidParameter.
 */
export async function startChild(
  { store, sandboxes, secrets, callbacks, masks, pending }: ChildDeps,
  parent: ConversationRow,
  { task, title, isolation = "worktree" }: StartChildRequest,
): Promise<StartedChild> {
  const { userId, sandboxId } = parent;
  const id = newId();
  const { goal: _goal, forkedFrom: _forked, task: _task, worktree: inherited, ...config } = parent.config;
  const own =
    isolation === "worktree"
      ? await createWorktree(sandboxes, { id, sandboxId }, config.workingDir)
      : undefined;
  const message = { id: newId(), content: parseContent([textContent(task)]) };
  const [context, agent, given, mask] = await Promise.all([
    store.contexts.get(parent.id),
    config.ownAgent ? store.agents.get(parent.id) : undefined,
    store.conversationSecrets.get(parent.id),
    masks.forUser(userId),
  ]);
  const child = {
    id,
    userId,
    sandboxId,
    parentId: parent.id,
    createdAt: Date.now(),
    title: title || makeTitle(message.content, mask) || null,
    // Without a worktree of its own it works in the parent's, which stays as long as one of them.
    config: { ...config, worktree: inherited, ...own },
    message,
    ...(context && { context: { document: toForkContext(context.document), activated: [] } }),
    secrets: given && secrets.newConversation({ userId, conversationId: id, sandboxId }, given.values, given),
    callbacks: callbacks.rowsOf(userId, id, []),
  };
  try {
    await store.conversations.create(child, agent);
  } catch (error) {
    await removeWorktree({ store, sandboxes }, parent, own?.worktree);
    throw error;
  }
  await pending.deliverFirst(id, message, undefined);
  return { row: (await store.conversations.get(id))!, isolation: own ? "worktree" : "shared" };
}
