import type { AppConversationStartRequest } from "@sandpiper/wire";
import type { Store } from "../../store/store.ts";
import { isStoredAlready, type StartFailures } from "./start-failures.ts";
import type { StartMessages } from "./start-messages.ts";
import type { Start } from "./start-plans.ts";
import type { StartPreparation } from "./start-preparation.ts";
import type { StartSandboxes } from "./start-sandboxes.ts";
import type { TaskFeed } from "./task-feed.ts";

/** Delay of the sandbox's start, so that the first model request is written before it, ms. */
const headStartMs = 5;

export interface StartStepsDeps {
  store: Pick<Store, "conversations">;
  tasks: Pick<TaskFeed, "update">;
  sandboxes: Pick<StartSandboxes, "prepare">;
  preparation: StartPreparation;
  messages: StartMessages;
  failures: StartFailures;
}

/** The steps of a start up to READY; a later process can repeat each of them. */
export class StartSteps {
  readonly #deps: StartStepsDeps;

  constructor(deps: StartStepsDeps) {
    this.#deps = deps;
  }

  /**
   * Stores the conversation and calls `onStored`, starts the first model call if nothing has to be
   * read before it, and waits for the sandbox, in which the agent's tools run. A failing sandbox
   * ends the task, and the conversation shows the same reason. Throws the reason of the failure, or
   * that of the signal.
   */
  async start(start: Start, request: AppConversationStartRequest, onStored?: () => void): Promise<void> {
    const { store, tasks, sandboxes, preparation, messages, failures } = this.#deps;
    const { task, conversation, work } = start;
    await messages.checkModel(start);
    const owner = await start.requireOwner();
    // Starting a sandbox blocks this process for some milliseconds, so the first model request goes
    // first.
    const { promise: sandboxMayStart, resolve: startSandbox } = Promise.withResolvers<void>();
    const goesFirst = work.message !== undefined && !work.preparesFirst;
    const createSandbox = start.hasSandbox ? undefined : await sandboxes.prepare(start, request);
    if (!goesFirst || (await messages.waitsForTools(start))) startSandbox();
    try {
      const placed = settle(
        tasks.update(task.id, { status: "WAITING_FOR_SANDBOX", detail: null }),
        createSandbox?.(sandboxMayStart),
      );
      // No node would own a conversation without a sandbox. A server that is alone stores both in
      // one transaction.
      if (owner !== undefined) await placed;
      const stored = store.conversations.create(conversation).catch(async (error) => {
        if (!(await isStoredAlready(store, conversation, error))) throw error;
      });
      await settle(placed, stored);
      start.leave();
      onStored?.();
      if (goesFirst) await messages.sendFirst(start);
    } catch (error) {
      startSandbox();
      start.leave();
      // The next process, or another node, resumes the start.
      start.signal.throwIfAborted();
      await failures.discard(start, error);
      throw error;
    }
    if (goesFirst) setTimeout(startSandbox, headStartMs);
    await preparation.run(start);
  }

  /** Resumes a start whose conversation is stored. Throws as `start`. */
  async resume(start: Start): Promise<void> {
    const { preparation, messages } = this.#deps;
    const { message, preparesFirst } = start.work;
    if (!preparesFirst && message && (await messages.isEmpty(start))) await messages.sendFirst(start);
    await preparation.run(start);
  }
}

/** Waits for all promises, and then throws the error of the first one that failed. */
async function settle(...work: unknown[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) if (result.status === "rejected") throw result.reason;
}
