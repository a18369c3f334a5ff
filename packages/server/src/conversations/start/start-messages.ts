import { PlatformError } from "@sandpiper/core/errors";
import type { OpenModel } from "@sandpiper/models/model";
import type { NewConversation } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import { conversationModel } from "../agent/agent-config.ts";
import type { ConversationCommands } from "../api.ts";
import type { PendingMessages } from "../commands/pending.ts";
import type { Start } from "./start-plans.ts";

export interface StartMessagesDeps {
  store: Pick<Store, "events">;
  settings: Settings;
  openModel: OpenModel;
  commands: Pick<ConversationCommands, "run" | "send">;
  pending: Pick<PendingMessages, "deliver">;
  /** Whether the first message of a conversation waits for tools, which may need the sandbox. */
  waitsForTools(conversation: NewConversation): Promise<boolean>;
}

/** The first message of a start, and those that arrive meanwhile. */
export class StartMessages {
  readonly #deps: StartMessagesDeps;

  constructor(deps: StartMessagesDeps) {
    this.#deps = deps;
  }

  /** Throws ModelNotConfigured when the message could not be answered. */
  async checkModel({ conversation, work }: Start): Promise<void> {
    const { settings, openModel } = this.#deps;
    if (!work.message) return;
    const { model, ...rest } = await conversationModel(conversation, settings);
    openModel({ model: model ?? "", ...rest });
  }

  waitsForTools({ conversation }: Start): Promise<boolean> {
    return this.#deps.waitsForTools(conversation);
  }

  /** Whether the conversation has no events. */
  async isEmpty({ conversation }: Start): Promise<boolean> {
    return (await this.#deps.store.events.lastSeq(conversation.id)) === 0;
  }

  /** Whether the first message is in the log. */
  async isSent({ task, conversation }: Start): Promise<boolean> {
    return (await this.#deps.store.events.batch(conversation.id, [task.id]))[0] !== null;
  }

  /**
   * Sends the first message, which has the task's id, so that it is never sent twice. Another node
   * may have sent it, with a write that came late; then only the run begins here.
   */
  async sendFirst(start: Start): Promise<void> {
    const { task, conversation, work } = start;
    const { commands } = this.#deps;
    try {
      await commands.send(conversation.id, work.message!, { run: true, eventId: task.id });
    } catch (error) {
      if (!(await this.isSent(start))) throw error;
      await commands.run(conversation.id).catch((reason: unknown) => {
        if (!(reason instanceof PlatformError && reason.code === "ConversationRunning")) throw reason;
      });
    }
  }

  /** Sends the messages that arrived during the start. Never rejects. */
  deliverPending({ conversation }: Start): Promise<void> {
    return this.#deps.pending.deliver(conversation.id);
  }
}
