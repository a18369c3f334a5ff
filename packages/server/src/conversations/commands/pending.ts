import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { type Content, hexId, newId, parseId } from "@sandpiper/wire";
import type { SandboxScope } from "../../store/sandbox-scope.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { Store } from "../../store/store.ts";
import type { ConversationCommands } from "../api.ts";
import { requireLocal, requireSandbox } from "../lookup.ts";

/** Maximum pending messages of a conversation (app-server.md section 2.8). */
export const maxPendingMessages = 10;

export interface PendingMessagesDeps {
  store: Pick<Store, "conversations" | "startTasks" | "pendingMessages">;
  commands: Pick<ConversationCommands, "send">;
  sandboxes: Pick<Sandboxes, "get">;
  logger: Logger;
}

/** Delivers messages to conversations that are being started, once and in order, when READY. */
export class PendingMessages {
  readonly #deps: PendingMessagesDeps;
  readonly #arrivals = new KeyedMutex();
  readonly #deliveries = new KeyedMutex();

  constructor(deps: PendingMessagesDeps) {
    this.#deps = deps;
  }

  /**
   * Queues a message, and delivers it at once if the conversation is ready. `target` is a
   * conversation's id in either form, or `task-` and the id of its start task; `position` counts
   * from 1. Throws ConversationNotFound, ConversationExternal, ConversationArchived,
   * StartTaskNotFound, StartFailed, TooManyMessages.
   */
  async add(userId: string, target: string, content: Content[]): Promise<{ id: string; position: number }> {
    const conversationId = await this.#resolve(userId, target);
    const { pendingMessages } = this.#deps.store;
    const id = newId();
    const position = await this.#arrivals.run(conversationId, async () => {
      const waiting = (await pendingMessages.listByConversation(conversationId)).length;
      if (waiting >= maxPendingMessages)
        throw new PlatformError("PendingQueueFull", { max: maxPendingMessages });
      await pendingMessages.create({ id, userId, conversationId, content, createdAt: Date.now() });
      return waiting + 1;
    });
    // Checked after storing: a start that became READY earlier has delivered without this message.
    if (await this.#isReady(userId, conversationId)) void this.deliver(conversationId);
    return { id: hexId(id), position };
  }

  /** Sends the pending messages and runs the agent. Never rejects; failures are retried later. */
  deliver(conversationId: string): Promise<void> {
    return this.#deliveries.run(conversationId, () => this.#send(conversationId));
  }

  /** Sends the message that was stored with a new conversation. */
  async deliverFirst(
    conversationId: string,
    { id, content }: { id: string; content: Content[] },
    sender: string | undefined,
  ): Promise<void> {
    const options = { run: true, sender, delivers: id };
    await this.#deps.commands.send(conversationId, content, options).catch(ignoreDelivered);
  }

  /** Removes the pending messages of a conversation that cannot receive them any more. */
  async discard(conversationId: string): Promise<void> {
    await this.#deps.store.pendingMessages.removeByConversation(conversationId);
  }

  /** Delivers messages that an earlier process left behind; resumed starts deliver their own. */
  async recover(scope: SandboxScope): Promise<void> {
    const { store } = this.#deps;
    const waiting = await store.pendingMessages.listConversations(scope);
    const open = new Set((await store.startTasks.listOpen(scope)).map((task) => task.conversationId));
    for (const id of waiting) if (!open.has(id)) void this.deliver(id);
  }

  async #send(conversationId: string): Promise<void> {
    const { store, sandboxes, commands, logger } = this.#deps;
    try {
      for (const { id, content } of await store.pendingMessages.listByConversation(conversationId)) {
        const row = await store.conversations.get(conversationId);
        if (!row || !(await sandboxes.get(row.userId, row.sandboxId)))
          return await this.discard(conversationId);
        await commands.send(conversationId, content, { run: true, delivers: id }).catch(ignoreDelivered);
      }
    } catch (err) {
      logger.error({ err, conversation: conversationId }, "pending messages could not be delivered");
    }
  }

  async #resolve(userId: string, target: string): Promise<string> {
    const { conversations } = this.#deps.store;
    const id = parseId(target.replace(/^task-/, ""));
    if (target.startsWith("task-")) {
      const task = id === undefined ? undefined : await this.#deps.store.startTasks.get(id);
      if (!task || task.userId !== userId) throw new PlatformError("StartTaskUnknown");
      await this.#check(task);
      return task.conversationId;
    }
    if (id === undefined) throw new PlatformError("ConversationUnknown");
    const row = await conversations.get(id);
    if (row?.userId === userId) {
      requireLocal(row);
      await requireSandbox(this.#deps.sandboxes, row);
      return id;
    }
    const task = await this.#taskOf(userId, id);
    if (!task) throw new PlatformError("ConversationUnknown");
    await this.#check(task);
    return id;
  }

  /** Throws when the conversation of a start task cannot receive messages any more. */
  async #check(task: StartTaskRow): Promise<void> {
    if (task.status === "ERROR") throw new PlatformError("StartHasFailed");
    if (task.status !== "READY") return;
    const row = await this.#deps.store.conversations.get(task.conversationId);
    if (!row) throw new PlatformError("ConversationUnknown");
    await requireSandbox(this.#deps.sandboxes, row);
  }

  async #isReady(userId: string, conversationId: string): Promise<boolean> {
    const task = await this.#taskOf(userId, conversationId);
    return task === undefined || task.status === "READY" || task.status === "ERROR";
  }

  async #taskOf(userId: string, conversationId: string): Promise<StartTaskRow | undefined> {
    const { items } = await this.#deps.store.startTasks.search(
      { userId, conversationId },
      { limit: 1, sort: "CREATED_AT_DESC" },
    );
    return items[0];
  }
}

/** Ignores that another delivery was faster. */
function ignoreDelivered(error: unknown): void {
  if (!(error instanceof PlatformError && error.code === "MessageDelivered")) throw error;
}
