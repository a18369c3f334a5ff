import { listed, nudge } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import type { ActionEvent, Content, ExecutionStatus } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { SendOptions } from "../api.ts";
import { userMessage } from "../log/messages.ts";
import { rejectActions, unansweredReason } from "../log/rejections.ts";
import type { Histories } from "../run/histories.ts";
import type { Runner } from "../run/runner.ts";
import type { MessageTitles } from "./message-titles.ts";
import type { Opening, Openings } from "./openings.ts";

export interface MessageDeliveryDeps {
  store: Pick<Store, "conversations" | "events">;
  openings: Openings;
  knowledge: Pick<ProjectKnowledge, "activate" | "recordActivation">;
  histories: Pick<Histories, "openActions">;
  titles: MessageTitles;
  runner: Pick<Runner, "append" | "wake">;
}

/** Appends messages to logs, with what comes before them, and wakes the agents. */
export class MessageDelivery {
  readonly #deps: MessageDeliveryDeps;

  constructor(deps: MessageDeliveryDeps) {
    this.#deps = deps;
  }

  async deliver(row: ConversationRow, content: Content[], options: SendOptions): Promise<void> {
    await this.#deps.openings.append(row, (latest, opening) =>
      this.#append(latest, content, options, opening),
    );
  }

  async #append(
    row: ConversationRow,
    content: Content[],
    options: SendOptions,
    opening?: Opening,
  ): Promise<void> {
    const { store, knowledge, histories, titles, runner } = this.#deps;
    const { id } = row;
    const { delivers, eventId, run, sender } = options;
    const skills = await knowledge.activate(row, content);
    const message = { ...userMessage(content, sender, skills), ...(eventId && { id: eventId }) };
    // The status is read last, because it may have changed during the other reads.
    let status = await this.#readStatus(row);
    let open: ActionEvent[] = [];
    if (run && status === "waiting_for_confirmation") {
      open = await histories.openActions(id);
      status = await this.#readStatus(row);
    }
    const rejects = run && status === "waiting_for_confirmation";
    const records = [
      ...(opening ? [listed(opening.prompt)] : []),
      ...(rejects ? rejectActions(open, unansweredReason) : []),
      listed(message),
      ...(opening?.notes ?? []).map(nudge),
      ...transition(status, run ? "messageAndRun" : "message"),
    ];
    if (run) await runner.append(row, records, { delivers });
    else await store.events.append(id, records, { delivers });
    await knowledge.recordActivation(id, skills);
    await titles.update(row, content, { isFirst: opening !== undefined });
    if (run) await runner.wake(id);
  }

  async #readStatus(row: ConversationRow): Promise<ExecutionStatus> {
    const { summary } = (await this.#deps.store.conversations.get(row.id)) ?? row;
    return summary.executionStatus;
  }
}
