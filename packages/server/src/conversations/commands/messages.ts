import type { Content } from "@sandpiper/wire";
import type { Store } from "../../store/store.ts";
import type { SendOptions } from "../api.ts";
import type { ConversationLookup } from "../lookup.ts";
import type { Announcements } from "../run/announcements.ts";
import type { Goals } from "./goals.ts";
import type { MessageDelivery } from "./message-delivery.ts";
import type { RunCommands } from "./run-commands.ts";

export interface MessagesDeps {
  store: Pick<Store, "events">;
  access: ConversationLookup;
  goals: Pick<Goals, "stop">;
  commands: Pick<RunCommands, "answerByMessage">;
  announcements: Pick<Announcements, "ended">;
  delivery: MessageDelivery;
}

/** Messages of users and other senders: a message stops the goal and answers waiting actions. */
export class Messages {
  readonly #deps: MessagesDeps;

  constructor(deps: MessagesDeps) {
    this.#deps = deps;
  }

  /** See `ConversationCommands.send`. */
  async send(id: string, content: Content[], options: SendOptions): Promise<void> {
    const { access, goals, commands, announcements, delivery } = this.#deps;
    const row = await access.requireWithSandbox(id);
    const stopsGoal = !options.ofGoal && row.config.goal?.status === "running";
    if (stopsGoal) await goals.stop(row);
    // The message rejects pending actions, unless an approval is already queued.
    const { summary } = stopsGoal ? await access.requireWithSandbox(id) : row;
    const rejects = options.run && summary.executionStatus === "waiting_for_confirmation";
    const deliver = async () => {
      await announcements.ended(id);
      await delivery.deliver(await access.requireWithSandbox(id), content, options);
    };
    await (rejects ? commands.answerByMessage(id, deliver) : deliver());
  }

  /** See `ConversationCommands.sendOnce`. */
  async sendOnce(id: string, content: Content[], options: SendOptions & { eventId: string }): Promise<void> {
    const isSent = async () => (await this.#deps.store.events.batch(id, [options.eventId]))[0] !== null;
    if (await isSent()) return;
    try {
      await this.send(id, content, options);
    } catch (error) {
      // A request with the same id may have been first: the log takes each id once.
      if (!(await isSent())) throw error;
    }
  }
}
