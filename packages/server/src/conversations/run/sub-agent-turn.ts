import { createHash } from "node:crypto";
import { notice } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import { abortable } from "@sandpiper/core/abortable";
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
  readonly #actionId: string;
  readonly #ended = Promise.withResolvers<void>();
  #sending: Promise<void> = Promise.resolve();
  #sent = false;
  /** The looks at both conversations, one after the other. */
  #looks: Promise<void> = Promise.resolve();
  /** True while a look waits for an earlier look. */
  #looksAgain = false;
  /** The sub-agent was paused with its parent and continues with it. */
  #pausedWithParent = false;

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
    this.#actionId = actionId;
    this.#signal = signal;
  }

  /**
   * Sends the task and waits for its result. Throws the signal's reason, whatever hangs; an
   * interrupt first interrupts the sub-agent.
   */
  async waitForResult(send: () => Promise<void>): Promise<TaskObservation> {
    const { events } = this.#deps.store;
    // A pause of the sub-agent may become durable after the parent has continued.
    const leave = [this.childId, this.#parent.id].map((id) => events.follow(id, () => this.checkStatus()));
    try {
      return await abortable(this.#work(send), this.#signal);
    } catch (error) {
      if (this.#signal.reason === "interrupt") {
        // A task that arrived later would wake the sub-agent again.
        await this.#sending.catch(() => {});
        await this.#deps.runner.abort(this.childId, "interrupt");
      }
      throw error;
    } finally {
      for (const end of leave) end();
    }
  }

  async #work(send: () => Promise<void>): Promise<TaskObservation> {
    const begun = this.#begin();
    this.#looks = begun.catch(() => {});
    await begun;
    this.#signal.throwIfAborted();
    this.#sending = send();
    await this.#sending;
    this.#sent = true;
    this.checkStatus();
    await this.#ended.promise;
    await this.#looks;
    return this.#toObservation();
  }

  /**
   * Looks at both conversations after they have changed. The turn ends when the sub-agent has
   * stopped.
   */
  checkStatus(): void {
    if (this.#looksAgain) return;
    this.#looksAgain = true;
    this.#looks = this.#looks.then(() => this.#look()).catch(() => {});
  }

  async #begin(): Promise<void> {
    const child = await this.#getChild();
    this.#pausedWithParent =
      child?.summary.executionStatus === "paused" && (await this.#parentWasPaused(this.#actionId));
  }

  async #look(): Promise<void> {
    // A change from now on needs another look.
    this.#looksAgain = false;
    const [parent, child] = await this.#getBoth();
    if (!child) return this.#ended.resolve();
    this.#followParent(parent, child);
    if (!this.#sent) return;
    const { executionStatus: status } = child.summary;
    if (isWaiting(child)) await this.#askForParent().catch(() => {});
    else if (isWaiting(parent)) await this.#answerParent().catch(() => {});
    if (status === "running" || isWaiting(child)) return;
    // A paused sub-agent continues later; an interrupted one does not.
    if (status === "paused") {
      const last = findLast(await this.#recentEvents(), ["InterruptEvent", "PauseEvent"]);
      if (last?.kind !== "InterruptEvent") return;
    }
    this.#ended.resolve();
  }

  /** The parent waits for the user while its sub-agent does. */
  async #askForParent(): Promise<void> {
    const question = await this.#makeQuestion();
    // The status is read last, because it may have changed during the other reads.
    const [parent, child] = await this.#getBoth();
    if (!parent || this.#signal.aborted || !isWaiting(child)) return;
    const { executionStatus } = parent.summary;
    // The parent may already wait for another sub-agent.
    const waits = executionStatus === "running" ? transition(executionStatus, "awaitApproval") : [];
    const records = [...question, ...waits];
    if (records.length > 0) await this.#deps.store.events.append(parent.id, records);
  }

  async #answerParent(): Promise<void> {
    if (await this.#siblingsWait()) return;
    const [parent, child] = await this.#getBoth();
    if (!parent || this.#signal.aborted || !isWaiting(parent) || isWaiting(child)) return;
    const records = transition(parent.summary.executionStatus, "subAgentsAnswered");
    await this.#deps.store.events.append(parent.id, records);
  }

  async #siblingsWait(): Promise<boolean> {
    const { conversations } = this.#deps.store;
    const siblings = (await conversations.listChildren([this.#parent.id])).get(this.#parent.id) ?? [];
    const rows = await Promise.all(siblings.map((id) => conversations.get(id)));
    return rows.some((row) => row?.config.task !== undefined && isWaiting(row));
  }

  /** The sub-agent's question as a message in the parent's log, once per answer of its model. */
  async #makeQuestion(): Promise<ReturnType<typeof notice>[]> {
    const { events } = this.#deps.store;
    const { questionId, actions } = await findQuestion(events, this.childId);
    if (questionId === undefined) return [];
    const [asked] = await events.batch(this.#parent.id, [questionId]);
    if (asked !== null) return [];
    const { id, subagent } = (await this.#getChild())?.config.task ?? {};
    // For people only: the arguments may hold foreign text, which must not speak as the user.
    const record = notice(formatQuestion(`${id} (${subagent})`, actions, hexId(this.childId)));
    return [{ ...record, event: { ...record.event, id: questionId } }];
  }

  /** Pauses and continues the sub-agent with its parent. */
  #followParent(parent: ConversationRow | undefined, child: ConversationRow): void {
    const status = parent?.summary.executionStatus;
    const childStatus = child.summary.executionStatus;
    if (status === "paused" && childStatus === "running" && !this.#pausedWithParent) {
      this.#pausedWithParent = true;
      void this.#deps.commands.pause(this.childId).catch(() => {});
    }
    if (status === "running" && childStatus === "paused" && this.#pausedWithParent) {
      this.#pausedWithParent = false;
      void this.#deps.commands.run(this.childId).catch(() => {});
    }
  }

  /** Whether the parent was paused after the call. */
  async #parentWasPaused(actionId: string): Promise<boolean> {
    const { events } = this.#deps.store;
    const query = { kind: "PauseEvent", descending: true, limit: 1 };
    const [pauses, [called]] = await Promise.all([
      events.search(this.#parent.id, query),
      events.batch(this.#parent.id, [actionId]),
    ]);
    const [paused] = pauses.items;
    const timeOf = (json: string) => (JSON.parse(json) as Event).timestamp;
    return paused !== undefined && Boolean(called) && timeOf(paused) >= timeOf(called!);
  }

  async #toObservation(): Promise<TaskObservation> {
    const [child, recent] = await Promise.all([this.#getChild(), this.#recentEvents()]);
    const task = child?.config.task;
    const status = child?.summary.executionStatus;
    const said = child ? findAnswer(recent) : undefined;
    const done = status === "finished";
    const text = done
      ? (said ?? "(The sub-agent finished without a word.)")
      : describeFailure(recent, status, said);
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

  /** Reads the last events of the sub-agent, newest first. */
  async #recentEvents(): Promise<Event[]> {
    const query = { descending: true, limit: maxRecentEvents };
    const { items } = await this.#deps.store.events.search(this.childId, query);
    return items.map((json) => JSON.parse(json) as Event);
  }

  #getChild(): Promise<ConversationRow | undefined> {
    return this.#deps.store.conversations.get(this.childId);
  }

  #getBoth(): Promise<[parent: ConversationRow | undefined, child: ConversationRow | undefined]> {
    return Promise.all([this.#deps.store.conversations.get(this.#parent.id), this.#getChild()]);
  }
}

function isWaiting(row: ConversationRow | undefined): boolean {
  return row?.summary.executionStatus === "waiting_for_confirmation";
}

/** `recent`: the sub-agent's last events, newest first. */
function describeFailure(
  recent: readonly Event[],
  status: ExecutionStatus | undefined,
  said: string | undefined,
): string {
  const last = findLast(recent, ["ConversationErrorEvent"]);
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
function findAnswer(recent: readonly Event[]): string | undefined {
  for (const event of recent) {
    if (event.kind === "ActionEvent" && event.action?.kind === "FinishAction") return event.action.message;
    if (event.kind === "MessageEvent" && event.source === "agent") {
      const text = contentText(event.llm_message.content);
      if (text.trim()) return text;
    }
    if (event.kind === "MessageEvent" && event.source === "user") return undefined;
  }
  return undefined;
}

function findLast(recent: readonly Event[], kinds: readonly Event["kind"][]): Event | undefined {
  return recent.find(({ kind }) => kinds.includes(kind));
}

/**
 * The calls of a sub-agent's last answer, and the id of the question about them; without an id when
 * there is no call.
 */
export async function findQuestion(
  events: Pick<Store["events"], "search">,
  childId: string,
): Promise<{ questionId?: string; actions: ActionEvent[] }> {
  const { items } = await events.search(childId, { descending: true, limit: maxAskedEvents });
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
