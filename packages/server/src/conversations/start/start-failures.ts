import { failure } from "@sandpiper/agent/loop/status";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationRow } from "../../store/conversation-store.ts";
import { isPassing } from "../../store/is-passing.ts";
import type { Store } from "../../store/store.ts";
import { removeWithSandbox } from "../commands/removal.ts";
import { isMoved } from "../custody.ts";
import type { Announcements } from "../run/announcements.ts";
import type { Runner } from "../run/runner.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import type { Start } from "./start-plans.ts";

export interface StartFailuresDeps {
  store: Pick<Store, "conversations" | "events">;
  sandboxes: Pick<Sandboxes, "get" | "remove">;
  joins: Pick<SandboxJoins, "remove">;
  runner: Pick<Runner, "abort" | "remove">;
  announcements: Pick<Announcements, "announceEnd">;
}

/** Removes conversations whose start failed, or shows them the reason. */
export class StartFailures {
  readonly #deps: StartFailuresDeps;

  constructor(deps: StartFailuresDeps) {
    this.#deps = deps;
  }

  /**
   * Ends a stored conversation, whose log shows the reason if it has a message. Does nothing when
   * the failure only delays the start. Throws OwnershipLost when another node has the start.
   */
  async end(start: Start, error: unknown): Promise<void> {
    if (onlyDelays(error)) return;
    const owner = await start.requireOwner();
    const { store, runner } = this.#deps;
    const { id } = start.conversation;
    await runner.abort(id, "removed");
    if (!(await store.conversations.get(id))) await runner.remove(id);
    else if (start.work.preparesFirst && (await store.events.lastSeq(id)) === 0)
      await this.#discard(start, error, owner);
    else await this.#report(id, error);
  }

  /** Removes a conversation whose start failed before its first message; else like `end`. */
  async discard(start: Start, error: unknown): Promise<void> {
    if (onlyDelays(error)) return;
    await this.#discard(start, error, await start.requireOwner());
  }

  async #discard(
    { task, conversation, ownsSandbox }: Start,
    error: unknown,
    owner: string | undefined,
  ): Promise<void> {
    const { store, runner } = this.#deps;
    const row = await store.conversations.get(conversation.id);
    if (!row || isSame(row, conversation)) await runner.remove(conversation.id);
    const failedStart = { taskId: task.id, owner, reason: toFailureReason(error) };
    const how = { keepSandbox: !ownsSandbox, failedStart };
    await removeWithSandbox(this.#deps, conversation, how).catch(() => {});
  }

  async #report(id: string, error: unknown): Promise<void> {
    const { store, announcements } = this.#deps;
    const code =
      error instanceof PlatformError && error.code === "RepositoryFailed" ? error.code : "SandboxFailed";
    await store.events.append(id, failure(code, errorText(error)));
    announcements.announceEnd(id);
  }
}

/**
 * Whether a failure only delays a start: the store is away, or this node has lost its lease or the
 * start. The start goes on later, here or at another node.
 */
export function onlyDelays(error: unknown): error is PlatformError {
  if (isPassing(error) || isMoved(error)) return true;
  return error instanceof PlatformError && (error.code === "StorageFull" || error.code === "NodeUnreachable");
}

/**
 * Whether the conversation of a start could not be stored because it is stored already: by an
 * earlier node, whose last write came late.
 */
export async function isStoredAlready(
  { conversations }: Pick<Store, "conversations">,
  conversation: ConversationPlace,
  error: unknown,
): Promise<boolean> {
  if (!(error instanceof PlatformError && error.code === "ConversationExists")) return false;
  const row = await conversations.get(conversation.id);
  return row !== undefined && isSame(row, conversation);
}

type ConversationPlace = Pick<ConversationRow, "id" | "userId" | "sandboxId">;

/** Whether a stored conversation is that of a start: no other start has its sandbox. */
function isSame(row: ConversationPlace, { userId, sandboxId }: ConversationPlace): boolean {
  return row.userId === userId && row.sandboxId === sandboxId;
}

/** The detail of a failed start task. */
export function toFailureReason(error: unknown): string {
  if (error instanceof PlatformError) return error.message;
  return "The conversation could not be started: an unexpected error, see the server's log.";
}
