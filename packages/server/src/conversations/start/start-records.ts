import { isDeepStrictEqual } from "node:util";
import type { AppConversationStartRequest } from "@sandpiper/wire";
import { maskText } from "@sandpiper/wire";
import { type Callbacks, withoutCallbackSecrets } from "../../callbacks/api.ts";
import type { SandboxScope } from "../../store/sandbox-scope.ts";
import type { StartParts, StartTaskRow } from "../../store/start-task-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets } from "../../users/api.ts";

export interface StartRecordsDeps {
  store: Pick<Store, "startTasks">;
  callbacks: Pick<Callbacks, "check" | "rowsOf">;
  secrets: Pick<Secrets, "newConversation">;
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
   * Stores a task with its secrets, their scope and callbacks in one transaction. Throws what
   * `StartTaskStore.create` throws.
   */
  async create(
    task: Omit<StartTaskRow, "request"> & { sandboxId: string },
    request: AppConversationStartRequest,
    {
      scope,
      ...parts
    }: { scope: readonly string[] | null | undefined } & Pick<StartParts, "newest" | "owner">,
  ): Promise<StartTaskRow> {
    const { store, callbacks, secrets } = this.#deps;
    const { userId, conversationId, sandboxId } = task;
    const row = { ...task, request: storedRequest(request, conversationId) };
    const place = { userId, conversationId, sandboxId };
    await store.startTasks.create(row, {
      ...parts,
      secrets: secrets.newConversation(place, request.secrets ?? {}, { scope: scope ?? undefined }),
      callbacks: callbacks.rowsOf(userId, conversationId, request.processors ?? []),
    });
    return row;
  }

  /** Finds the task of a conversation that an equal request of the user has begun. */
  async findEqual(
    userId: string,
    conversationId: string,
    request: AppConversationStartRequest,
  ): Promise<StartTaskRow | undefined> {
    const newest = { limit: 1, sort: "CREATED_AT_DESC" } as const;
    const { items } = await this.#deps.store.startTasks.search({ userId, conversationId }, newest);
    const stored = JSON.parse(JSON.stringify(storedRequest(request, conversationId)));
    return items.find((task) => isDeepStrictEqual(task.request, stored));
  }

  /** Tasks of an earlier process that are neither READY nor ERROR. */
  listOpen(scope: SandboxScope): Promise<StartTaskRow[]> {
    return this.#deps.store.startTasks.listOpen(scope);
  }

  /** As `StartTaskStore.claim`. */
  claim(owner: string): Promise<StartTaskRow[]> {
    return this.#deps.store.startTasks.claim(owner);
  }

  /** Whether a task still belongs to a node. */
  isOwner(id: string, owner: string): Promise<boolean> {
    return this.#deps.store.startTasks.isOwner(id, owner);
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
