import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { listed, nudge } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import type { Content } from "@sandpiper/wire";
import { hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Toolsets } from "../agent/toolset.ts";
import type { SendOptions } from "../api.ts";
import { makeTitle, userMessage } from "../log/messages.ts";
import { rejectActions, unansweredReason } from "../log/rejections.ts";
import type { Runner } from "../run/runner.ts";
import type { Titles } from "../run/titles.ts";

export interface SendingDependencies {
  store: Pick<Store, "conversations" | "events">;
  toolsets: Pick<Toolsets, "forConversation">;
  /** Makes tools ready that the system prompt has to list, in a bounded time, and gives sentences that the model and the user should read. */
  prepare(row: ConversationRow, signal: AbortSignal): Promise<readonly string[]>;
  knowledge: Pick<ProjectKnowledge, "activate" | "recordActivation" | "systemPrompt">;
  runner: Pick<Runner, "announcements" | "histories" | "wake">;
  titles: Pick<Titles, "generate">;
  masks: Pick<OutputMasks, "forConversation">;
}

/** The first records of a conversation, before its first message and after it. */
interface Beginning {
  prompt: NewRecord;
  notes: NewRecord[];
}

/** Longest wait for the tools of a first message, ms: what makes them ready ends sooner. */
const prepareMs = 15_000;

/** Brings users' messages into the log, the system prompt before the first of them, and wakes the agent. */
export class Sending {
  readonly #deps: SendingDependencies;
  /** Conversations whose first records are on their way into the log, until they are there. */
  readonly #opening = new Map<string, Promise<void>>();

  constructor(deps: SendingDependencies) {
    this.#deps = deps;
  }

  /**
   * Appends a message; with `run` the agent is woken, and actions that wait for approval are rejected. The first one gives the title.
   * Throws ConversationNotFound, MessageDelivered, StorageFull.
   */
  async send(row: ConversationRow, content: Content[], options: SendOptions): Promise<void> {
    const { store, runner } = this.#deps;
    const { id } = row;
    runner.announcements.cancelRepeat(id);
    let opening = this.#opening.get(id);
    const waited = opening !== undefined;
    for (; opening; opening = this.#opening.get(id)) await opening;
    const now = waited ? (store.conversations.get(id) ?? row) : row;
    if (this.#hasBegun(now)) return this.#send(now, content, options);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#opening.set(id, promise);
    try {
      await this.#send(now, content, options, await this.#begin(now));
    } finally {
      this.#opening.delete(id);
      resolve();
    }
  }

  async #send(
    row: ConversationRow,
    content: Content[],
    options: SendOptions,
    begin?: Beginning,
  ): Promise<void> {
    const { store, knowledge, runner, titles, masks } = this.#deps;
    const { id } = row;
    const skills = knowledge.activate(row, content);
    const message = {
      ...userMessage(content, options.sender, skills),
      ...(options.eventId && { id: options.eventId }),
    };
    const status = row.summary.executionStatus;
    const waits = options.run && status === "waiting_for_confirmation";
    const rejected = waits ? rejectActions(runner.histories.openActions(id), unansweredReason) : [];
    const records: NewRecord[] = [
      ...(begin ? [begin.prompt] : []),
      ...rejected,
      listed(message),
      ...(begin?.notes ?? []),
      ...transition(status, options.run ? "messageAndRun" : "message"),
    ];
    const { delivers } = options;
    await store.events.append(id, records, { delivers });
    await knowledge.recordActivation(id, skills);
    const ownTitle = makeTitle(content, (text) => masks.forConversation(row).text(text));
    const isFirst = begin !== undefined && row.config.autotitle !== false;
    const untitled = row.title === null ? isFirst : row.title === `Conversation ${hexId(id).slice(0, 5)}`;
    if (untitled && ownTitle) await store.conversations.update(id, { title: ownTitle });
    if (untitled || (isFirst && row.title === ownTitle)) titles.generate(id, content);
    if (options.run) runner.wake(id);
    else if (untitled && ownTitle) runner.announcements.announceTitle(id);
  }

  /** The system prompt goes before the first message, with the tools that there are once they were made ready (events.md section 5). */
  async #begin(row: ConversationRow): Promise<Beginning> {
    const { toolsets, knowledge, prepare } = this.#deps;
    const notes = await prepare(row, AbortSignal.timeout(prepareMs)).catch(() => []);
    return {
      prompt: listed(knowledge.systemPrompt(row, toolsets.forConversation(row).tools)),
      notes: notes.map(nudge),
    };
  }

  #hasBegun({ id, head }: ConversationRow): boolean {
    return head === null ? this.#deps.store.events.lastSeq(id) > 0 : head !== "";
  }
}
