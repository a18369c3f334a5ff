import type { Sandboxes } from "@sandpiper/sandbox/api";
import { parseId } from "@sandpiper/wire";
import type { ConversationStarts } from "../../conversations/api.ts";
import { newSandbox, type SandboxRef } from "../../nodes/api.ts";
import type { ConversationStore } from "../../store/conversation-store.ts";
import type { StartTaskStore } from "../../store/start-task-store.ts";
import type { Principal } from "../server/principal.ts";
import type { Subject } from "./concern.ts";

export interface FindSandboxDeps {
  sandboxes: Pick<Sandboxes, "get">;
  conversations: Pick<ConversationStore, "get">;
  startTasks: Pick<StartTaskStore, "get" | "search">;
  findShared: ConversationStarts["findShared"];
}

/**
 * A sandbox, or a function that finds it: another attempt to reach its node may find another
 * sandbox.
 */
export type SandboxTarget = SandboxRef | (() => Promise<SandboxRef>);

/**
 * Returns the sandbox that a request concerns. Returns undefined when the sandbox does
 * not exist or belongs to another user, because every node gives the same answer then. A request
 * without a caller sends its key later, so this function does not check the user. `isForwarded`:
 * another node takes this node for the owner.
 */
export async function findSandbox(
  deps: FindSandboxDeps,
  caller: Principal | undefined,
  subject: Subject | undefined,
  isForwarded = false,
): Promise<SandboxTarget | undefined> {
  // The key or the prefix limits the request to one sandbox, whatever ids the request names.
  if (caller?.sandboxId !== undefined) return caller.sandboxId;
  if (!subject || subject === newSandbox) return subject;
  if ("start" in subject) {
    if (!caller) return undefined;
    const { userId } = caller;
    return async () => (await deps.findShared(userId, subject.start, { isHere: isForwarded })) ?? newSandbox;
  }
  const isOwn = ({ userId }: { userId: string }) => caller === undefined || caller.userId === userId;
  if ("sandbox" in subject) {
    const id = parseId(subject.sandbox) ?? subject.sandbox;
    return !caller || (await deps.sandboxes.get(caller.userId, id)) ? id : undefined;
  }
  const id = parseId("task" in subject ? subject.task : subject.conversation);
  if (id === undefined) return undefined;
  if ("task" in subject) {
    const task = await deps.startTasks.get(id);
    return task && isOwn(task) ? (task.sandboxId ?? undefined) : undefined;
  }
  const row = await deps.conversations.get(id);
  if (row) return isOwn(row) ? row.sandboxId : undefined;
  return caller && findStarting(deps, caller, id);
}

/** The sandbox of a conversation that its start has not stored yet. */
async function findStarting(
  { startTasks }: FindSandboxDeps,
  { userId }: Principal,
  conversationId: string,
): Promise<string | undefined> {
  const { items } = await startTasks.search(
    { userId, conversationId },
    { limit: 1, sort: "CREATED_AT_DESC" },
  );
  return items[0]?.sandboxId ?? undefined;
}
