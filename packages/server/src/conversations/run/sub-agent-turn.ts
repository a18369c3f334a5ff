import { createHash } from "node:crypto";
import { notice } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import {
  type ActionEvent,
  contentText,
  type Event,
  type ExecutionStatus,
  hexId,
  type TaskObservation,
  textContent,
} from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { ConversationCommands } from "../api.ts";
import type { Runner } from "./runner.ts";

/** Events at the end of a sub-agent's log that are searched for its answer. */
const maxRecentEvents = 100;

/** Events at the end of a sub-agent's log that are searched for the calls of its last answer. */
const maxAskedEvents = 1_000;

/** Maximum length of the answer, characters. */
const maxAnswerChars = 30_000;

export interface SubAgentTurnDeps {
  store: Pick<Store, "conversations" | "events">;
  runner: Pick<Runner, "abort">;
  commands: Pick<ConversationCommands, "run" | "pause">;
}

/** One turn of a sub-agent, which a call of the task tool waits for. */
export class SubAgentTurn {
  readonly childId: string;
  readonly #deps: SubAgentTurnDeps;
  readonly #parent: ConversationRow;
  readonly #signal: AbortSignal;
  readonly #ended = Promise.withResolvers<void>();
  #sent = false;
  #parentUpdates: Promise<void> = Promise.resolve();
  /** The sub-agent was paused with its parent and continues with it. */
  #pausedWithParent: boolean;

  /** `actionId` is the id of the call, which an earlier process may have begun. */
  constructor(
    deps: SubAgentTurnDeps,
    parent: ConversationRow,
    childId: string,
    actionId: string,
    signal: AbortSignal,
  ) {
    this.#deps = deps;
    this.#parent = parent;
    this.childId = childId;
    this.#signal = signal;
    this.#pausedWithParent =
      this.#getChild()?.summary.executionStatus === "paused" && this.#parentWasPaused(actionId);
  }

  /**
   * Sends the task and waits for its result. Throws the signal's reason; an interrupt first
   * interrupts the sub-agent.
   */
  async waitForResult(send: () => Promise<void>): Promise<TaskObservation> {
    const { events } = this.#deps.store;
    const leave = [
      events.follow(this.childId, () => {
        this.checkStatus();
        // A pause may become durable after the parent has continued.
        this.#followParent();
      }),
      events.follow(this.#parent.id, () => this.#followParent()),
    ];
    const onAbort = () => this.#ended.resolve();
    this.#signal.addEventListener("abort", onAbort, { once: true });
    try {
      await send();
      this.#sent = true;
      this.checkStatus();
      this.#followParent();
      await this.#ended.promise;
      if (this.#signal.reason === "interrupt") await this.#deps.runner.abort(this.childId, "interrupt");
      this.#signal.throwIfAborted();
      await this.#parentUpdates;
      return this.#toObservation();
    } finally {
      for (const end of leave) end();
      this.#signal.removeEventListener("abort", onAbort);
    }
  }

  /** Ends the turn when the sub-agent has stopped. */
  checkStatus(): void {
    const child = this.#getChild();
    if (!child) return this.#ended.resolve();
    if (!this.#sent) return;
    const { executionStatus: status } = child.summary;
    this.#parentUpdates = this.#parentUpdates.then(() => this.#updateParent()).catch(() => {});
    if (status === "running" || status === "waiting_for_confirmation") return;
    // A paused sub-agent continues later; an interrupted one does not.
    if (status === "paused" && this.#findLast(["InterruptEvent", "PauseEvent"])?.kind !== "InterruptEvent")
      return;
    this.#ended.resolve();
  }

  /** The parent waits for the user while its sub-agent does. */
  async #updateParent(): Promise<void> {
    const { events, conversations } = this.#deps.store;
    const parent = conversations.get(this.#parent.id);
    const status = this.#getChild()?.summary.executionStatus;
    if (!parent || this.#signal.aborted) return;
    const parentStatus = parent.summary.executionStatus;
    if (status === "waiting_for_confirmation") {
      // The parent may already wait for another sub-agent.
      const waits = parentStatus === "running" ? transition(parentStatus, "awaitApproval") : [];
      const records = [...this.#makeQuestion(), ...waits];
      if (records.length > 0) await events.append(parent.id, records);
    }
    if (
      status !== "waiting_for_confirmation" &&
      parentStatus === "waiting_for_confirmation" &&
      !this.#siblingsWait()
    )
      await events.append(parent.id, transition(parentStatus, "subAgentsAnswered"));
  }

  #siblingsWait(): boolean {
    const { conversations } = this.#deps.store;
    const siblings = conversations.listChildren([this.#parent.id]).get(this.#parent.id) ?? [];
    return siblings.some((id) => {
      const row = conversations.get(id);
      return row?.config.task !== undefined && row.summary.executionStatus === "waiting_for_confirmation";
    });
  }

  /** The sub-agent's question as a message in the parent's log, once per answer of its model. */
  #makeQuestion(): ReturnType<typeof notice>[] {
    const { events } = this.#deps.store;
    const { questionId, actions } = findQuestion(events, this.childId);
    if (questionId === undefined || events.batch(this.#parent.id, [questionId])[0] !== null) return [];
    const { id, subagent } = this.#getChild()?.config.task ?? {};
    // For people only: the arguments may hold foreign text, which must not speak as the user.
    const record = notice(formatQuestion(`${id} (${subagent})`, actions, hexId(this.childId)));
    return [{ ...record, event: { ...record.event, id: questionId } }];
  }

  /** Pauses and continues the sub-agent with its parent. */
  #followParent(): void {
    const status = this.#deps.store.conversations.get(this.#parent.id)?.summary.executionStatus;
    const child = this.#getChild()?.summary.executionStatus;
    if (status === "paused" && child === "running" && !this.#pausedWithParent) {
      this.#pausedWithParent = true;
      void this.#deps.commands.pause(this.childId).catch(() => {});
    }
    if (status === "running" && child === "paused" && this.#pausedWithParent) {
      this.#pausedWithParent = false;
      void this.#deps.commands.run(this.childId).catch(() => {});
    }
  }

  /** Whether the parent was paused after the call. */
  #parentWasPaused(actionId: string): boolean {
    const { events } = this.#deps.store;
    const [paused] = events.search(this.#parent.id, { kind: "PauseEvent", descending: true, limit: 1 }).items;
    const [called] = events.batch(this.#parent.id, [actionId]);
    const timeOf = (json: string) => (JSON.parse(json) as Event).timestamp;
    return paused !== undefined && Boolean(called) && timeOf(paused) >= timeOf(called!);
  }

  #toObservation(): TaskObservation {
    const child = this.#getChild();
    const task = child?.config.task;
    const status = child?.summary.executionStatus;
    const said = child ? this.#findAnswer() : undefined;
    const done = status === "finished";
    const text = done
      ? (said ?? "(The sub-agent finished without a word.)")
      : this.#describeFailure(status, said);
    return {
      kind: "TaskObservation",
      content: [
        textContent(
          text.length > maxAnswerChars ? `${text.slice(0, maxAnswerChars)}\n[The rest was cut off.]` : text,
        ),
      ],
      is_error: !done,
      task_id: task?.id ?? "",
      subagent: task?.subagent ?? "",
      status: done ? "completed" : "error",
    };
  }

  #describeFailure(status: ExecutionStatus | undefined, said: string | undefined): string {
    const last = this.#findLast(["ConversationErrorEvent"]);
    const detail = status === "error" && last?.kind === "ConversationErrorEvent" ? `: ${last.detail}` : ".";
    const why = {
      error: `The sub-agent ended with an error${detail}`,
      stuck: "The sub-agent got stuck: it repeated itself.",
      paused: "The sub-agent was interrupted by the user.",
      idle: "The user rejected what the sub-agent was going to do, and it stopped.",
    }[status as "error" | "stuck" | "paused" | "idle"];
    return `${why ?? "The sub-agent was deleted."}${said ? `\nIts last words before that:\n${said}` : ""}`;
  }

  /** The message of `finish`, or the last message of the sub-agent. */
  #findAnswer(): string | undefined {
    for (const event of this.#recentEvents()) {
      if (event.kind === "ActionEvent" && event.action?.kind === "FinishAction") return event.action.message;
      if (event.kind === "MessageEvent" && event.source === "agent") {
        const text = contentText(event.llm_message.content);
        if (text.trim()) return text;
      }
      if (event.kind === "MessageEvent" && event.source === "user") return undefined;
    }
    return undefined;
  }

  #findLast(kinds: readonly Event["kind"][]): Event | undefined {
    return this.#recentEvents().find(({ kind }) => kinds.includes(kind));
  }

  /** Newest first. */
  #recentEvents(): Event[] {
    const { items } = this.#deps.store.events.search(this.childId, {
      descending: true,
      limit: maxRecentEvents,
    });
    return items.map((json) => JSON.parse(json) as Event);
  }

  #getChild(): ConversationRow | undefined {
    return this.#deps.store.conversations.get(this.childId);
  }
}

/**
 * The calls of a sub-agent's last answer, and the id of the question about them; without an id when
 * there is no call.
 */
export function findQuestion(
  events: Pick<Store["events"], "search">,
  childId: string,
): { questionId?: string; actions: ActionEvent[] } {
  const { items } = events.search(childId, { descending: true, limit: maxAskedEvents });
  const newest = items.map((json) => JSON.parse(json) as Event);
  const from = newest.findIndex(({ kind }) => kind === "ActionEvent");
  const to = newest.findIndex(({ kind }, index) => index > from && kind !== "ActionEvent");
  // The calls of an answer stand together; ids of answers are up to the provider.
  const calls = from < 0 ? [] : newest.slice(from, to < 0 ? undefined : to);
  const actions = calls.filter((event) => event.kind === "ActionEvent").toReversed();
  const last = actions.at(-1);
  return { actions, ...(last && { questionId: deriveId("question", last.id) }) };
}

/** Maximum length of the calls in a question, characters. */
const maxQuestionChars = 50_000;

function formatQuestion(agent: string, actions: readonly ActionEvent[], conversation: string): string {
  const calls = actions.map(
    ({ tool_name, security_risk, tool_call }) =>
      `${tool_name} (risk ${security_risk}): ${tool_call.arguments}`,
  );
  const what = calls.join("\nand ");
  const more = what.length - maxQuestionChars;
  const rest = more > 0 ? `\n[${more} more characters: read them in its own conversation.]` : "";
  return (
    `The sub-agent ${agent} asks before it runs ${what.slice(0, maxQuestionChars)}${rest}\n` +
    `Approve or reject it here, or in its own conversation ${conversation}.`
  );
}

/** A dashed id derived from another id, so that a retry after a crash gets the same one. */
export function deriveId(purpose: string, from: string): string {
  const hex = createHash("sha256").update(`sandpiper ${purpose} ${from}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
