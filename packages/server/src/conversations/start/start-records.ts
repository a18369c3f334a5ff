import type { AppConversationStartRequest } from "@sandpiper/wire";
import { maskText } from "@sandpiper/wire";
import { type Callbacks, withoutCallbackSecrets } from "../../callbacks/api.ts";
import type { SandboxScope } from "../../store/sandbox-scope.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets } from "../../users/api.ts";
import type { PendingMessages } from "../commands/pending.ts";

export interface StartRecordsDeps {
  store: Pick<Store, "conversations" | "startTasks">;
  callbacks: Pick<Callbacks, "check" | "register" | "drop">;
  secrets: Pick<Secrets, "putConversation" | "removeConversation">;
  pending: Pick<PendingMessages, "discard">;
}

/** What is stored of a start before its conversation: the task, callbacks and secrets. */
export class StartRecords {
  readonly #deps: StartRecordsDeps;

  constructor(deps: StartRecordsDeps) {
    this.#deps = deps;
  }

  /** Throws InvalidParameter for an invalid callback. */
  check({ processors }: AppConversationStartRequest): void {
    this.#deps.callbacks.check(processors ?? []);
  }

  /**
   * Stores a task with its secrets, their scope and callbacks; nothing is left behind after an
   * error.
   */
  async create(
    task: Omit<StartTaskRow, "request"> & { sandboxId: string },
    request: AppConversationStartRequest,
    scope?: readonly string[] | null,
    owner?: string,
  ): Promise<StartTaskRow> {
    const { store, callbacks, secrets } = this.#deps;
    const { userId, conversationId, sandboxId } = task;
    const row = { ...task, request: storedRequest(request, conversationId) };
    try {
      // The task's request has no secret values, so they are stored first, for a start that resumes
      // after a crash. The store removes values without a task when it is opened.
      const values = request.secrets ?? {};
      if (Object.keys(values).length > 0 || scope)
        await secrets.putConversation({ userId, conversationId, sandboxId }, values, scope ? { scope } : {});
      // Callbacks are stored first too; the store removes callbacks without a task when it is
      // opened.
      await callbacks.register(userId, conversationId, request.processors ?? []);
      await store.startTasks.create(row, owner);
    } catch (error) {
      await this.#forget(conversationId);
      throw error;
    }
    return row;
  }

  /** Tasks of an earlier process that are neither READY nor ERROR. */
  listOpen(scope: SandboxScope): Promise<StartTaskRow[]> {
    return this.#deps.store.startTasks.listOpen(scope);
  }

  /**
   * Makes this node the owner of open tasks that have no sandbox and whose node has ended. Returns
   * all such tasks of this node.
   */
  claim(owner: string): Promise<StartTaskRow[]> {
    return this.#deps.store.startTasks.claim(owner);
  }

  /** Whether a task still belongs to a node. */
  isOwner(id: string, owner: string): Promise<boolean> {
    return this.#deps.store.startTasks.isOwner(id, owner);
  }

  /** Removes what a failed start has stored, unless its conversation exists. Never rejects. */
  async discard(conversationId: string): Promise<void> {
    const { store, pending } = this.#deps;
    await pending.discard(conversationId).catch(() => {});
    if (!(await store.conversations.get(conversationId))) await this.#forget(conversationId);
  }

  async #forget(conversationId: string): Promise<void> {
    const { callbacks, secrets } = this.#deps;
    await Promise.allSettled([callbacks.drop(conversationId), secrets.removeConversation(conversationId)]);
  }
}

/** The request as stored and shown with its task: without secret values. */
function storedRequest(
  request: AppConversationStartRequest,
  conversationId: string,
): AppConversationStartRequest {
  const { secrets, processors } = request;
  return {
    ...request,
    conversation_id: request.conversation_id ? conversationId : null,
    ...(processors && { processors: withoutCallbackSecrets(processors) }),
    ...(secrets && { secrets: Object.fromEntries(Object.keys(secrets).map((name) => [name, maskText])) }),
  };
}
