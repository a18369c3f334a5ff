import type { Content } from "@sandpiper/wire";
import { hexId } from "@sandpiper/wire";
import { listed, stateRecord } from "../agent/records.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { NewRecord } from "../store/event-log.ts";
import type { Store } from "../store/store.ts";
import type { Agents } from "./agents.ts";
import type { SendOptions } from "./api.ts";
import type { Knowledge } from "./knowledge.ts";
import { titleFrom, userMessage } from "./messages.ts";
import { rejections, unansweredReason } from "./rejections.ts";
import type { Runner } from "./runner.ts";
import type { Titles } from "./titles.ts";

export interface SendingDependencies {
  store: Pick<Store, "conversations" | "events">;
  agents: Pick<Agents, "tools">;
  knowledge: Pick<Knowledge, "activate" | "remember" | "systemPrompt">;
  runner: Pick<Runner, "forgetEnd" | "openActions" | "wake">;
  titles: Pick<Titles, "make">;
}

/** Brings users' messages into the log, the system prompt before the first of them, and wakes the agent. */
export class Sending {
  readonly #deps: SendingDependencies;
  /** Conversations whose first records are on their way into the log. */
  readonly #opening = new Set<string>();

  constructor(deps: SendingDependencies) {
    this.#deps = deps;
  }

  /**
   * Appends a message; with `run` the agent is woken, and actions that wait for approval are rejected. The first one gives the title.
   * Throws ConversationNotFound, MessageDelivered, StorageFull.
   */
  async send(row: ConversationRow, content: Content[], options: SendOptions): Promise<void> {
    const { store, knowledge, runner, titles } = this.#deps;
    const { id } = row;
    runner.forgetEnd(id);
    const skills = knowledge.activate(row, content);
    const first = this.#firstRecords(row);
    const message = { ...userMessage(content, options.sender, skills), ...(options.eventId && { id: options.eventId }) };
    const status = row.summary.executionStatus;
    const waits = options.run && status === "waiting_for_confirmation";
    const rejected = waits ? rejections(runner.openActions(id), unansweredReason) : [];
    const records: NewRecord[] = [...first, ...rejected, listed(message)];
    // Also when a run goes on: it may be ending without having seen this message.
    if (options.run) records.push(stateRecord("execution_status", "running"));
    // A new message re-opens an ended turn (agent-server.md section 4).
    if (!options.run && (status === "finished" || status === "stuck")) records.push(stateRecord("execution_status", "idle"));
    const { delivers } = options;
    await store.events.append(id, records, { delivers }).finally(() => first.length > 0 && this.#opening.delete(id));
    await knowledge.remember(id, skills);
    const ownTitle = titleFrom(content);
    const isFirst = first.length > 0 && row.config.autotitle !== false;
    const untitled = row.title === null ? isFirst : row.title === `Conversation ${hexId(id).slice(0, 5)}`;
    if (untitled && ownTitle) await store.conversations.update(id, { title: ownTitle });
    if (untitled || (isFirst && row.title === ownTitle)) titles.make(id, content);
    if (options.run) runner.wake(id);
  }

  /** The system prompt goes before the first message (events.md section 5); concurrent first messages get it once. */
  #firstRecords(row: ConversationRow): NewRecord[] {
    const { store, agents, knowledge } = this.#deps;
    const hasEvents = row.head === null ? store.events.lastSeq(row.id) > 0 : row.head !== "";
    if (hasEvents || this.#opening.has(row.id)) return [];
    const prompt = listed(knowledge.systemPrompt(row, agents.tools(row)));
    this.#opening.add(row.id);
    return [prompt];
  }
}
