import { nudge } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import type { AgentDefinition } from "@sandpiper/agent/skills/agent-definitions";
import type { ListedAgent } from "@sandpiper/agent/tools/task";
import type { Event, ExecutionStatus, TaskObservation } from "@sandpiper/wire";
import { contentText, hexId, textContent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { SendOptions } from "../api.ts";
import { derivedId } from "../log/derived-id.ts";
import type { Runner } from "./runner.ts";

/** Events from the end of a sub-agent's log among which its last words are looked for. */
const lookBack = 100;

/** Longest answer that is handed on, characters. */
const maxAnswer = 30_000;

/** What a call of the task tool waits for: one turn of a sub-agent, from its message to its end. */
export class SubAgentTurn {
  readonly childId: string;
  readonly #deps: SubAgentDependencies;
  readonly #parent: ConversationRow;
  readonly #signal: AbortSignal;
  readonly #over = Promise.withResolvers<void>();
  #sent = false;
  #telling: Promise<void> = Promise.resolve();
  /** The sub-agent was paused with its parent, and goes on with it. */
  #pausedWithParent: boolean;

  /** `actionId` is the call's, which an earlier process may have begun. */
  constructor(
    deps: SubAgentDependencies,
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
      this.#child()?.summary.executionStatus === "paused" && this.#parentWasPaused(actionId);
  }

  /** Sends the task by `send` and waits for what comes of it. Throws the signal's reason; an interrupt reaches the sub-agent first. */
  async observation(send: () => Promise<void>): Promise<TaskObservation> {
    const { events } = this.#deps.store;
    const leave = [
      events.follow(this.childId, () => {
        this.look();
        // A pause that becomes durable after the parent went on is to end, too.
        this.#followParent();
      }),
      events.follow(this.#parent.id, () => this.#followParent()),
    ];
    const onAbort = () => this.#over.resolve();
    this.#signal.addEventListener("abort", onAbort, { once: true });
    try {
      await send();
      this.#sent = true;
      this.look();
      this.#followParent();
      await this.#over.promise;
      if (this.#signal.reason === "interrupt") await this.#deps.runner.abort(this.childId, "interrupt");
      this.#signal.throwIfAborted();
      await this.#telling;
      return this.#result();
    } finally {
      for (const end of leave) end();
      this.#signal.removeEventListener("abort", onAbort);
    }
  }

  /** Looks where the sub-agent stands. */
  look(): void {
    const child = this.#child();
    if (!child) return this.#over.resolve();
    if (!this.#sent) return;
    const { executionStatus: status } = child.summary;
    this.#telling = this.#telling.then(() => this.#tellParent()).catch(() => {});
    if (status === "running" || status === "waiting_for_confirmation") return;
    // One that is paused goes on some time; one that was interrupted does not.
    if (status === "paused" && this.#last(["InterruptEvent", "PauseEvent"])?.kind !== "InterruptEvent")
      return;
    this.#over.resolve();
  }

  /** While the sub-agent waits for the user, so does its parent, where clients look. */
  async #tellParent(): Promise<void> {
    const { events, conversations } = this.#deps.store;
    const parent = conversations.get(this.#parent.id);
    const status = this.#child()?.summary.executionStatus;
    if (!parent || this.#signal.aborted) return;
    const shown = parent.summary.executionStatus;
    if (status === "waiting_for_confirmation" && shown === "running") {
      const asks = this.#question();
      await events.append(parent.id, [...asks, ...transition(shown, "awaitApproval")]);
    }
    if (status !== "waiting_for_confirmation" && shown === "waiting_for_confirmation" && !this.#othersWait())
      await events.append(parent.id, transition(shown, "subAgentsAnswered"));
  }

  #othersWait(): boolean {
    const { conversations } = this.#deps.store;
    const siblings = conversations.childrenOf([this.#parent.id]).get(this.#parent.id) ?? [];
    return siblings.some((id) => {
      const row = conversations.get(id);
      return row?.config.task !== undefined && row.summary.executionStatus === "waiting_for_confirmation";
    });
  }

  /** What the sub-agent asks to do, as a message in the parent's log; once for each of its actions. */
  #question(): ReturnType<typeof nudge>[] {
    const action = this.#last(["ActionEvent"]);
    if (action?.kind !== "ActionEvent") return [];
    const id = derivedId("question", action.id);
    const { events } = this.#deps.store;
    if (events.batch(this.#parent.id, [id])[0] !== null) return [];
    const child = this.#child();
    const what = action.tool_call.arguments.slice(0, 2000);
    const text =
      `The sub-agent ${child?.config.task?.id} (${child?.config.task?.subagent}) asks before it runs ${action.tool_name} ` +
      `(risk ${action.security_risk}): ${what}\nApprove or reject it here, or in its own conversation ${hexId(this.childId)}.`;
    const record = nudge(text);
    return [{ ...record, event: { ...record.event, id } }];
  }

  /** A pause of the parent reaches its sub-agents, and so does its end. */
  #followParent(): void {
    const status = this.#deps.store.conversations.get(this.#parent.id)?.summary.executionStatus;
    const child = this.#child()?.summary.executionStatus;
    if (status === "paused" && child === "running" && !this.#pausedWithParent) {
      this.#pausedWithParent = true;
      void this.#deps.pause(this.childId).catch(() => {});
    }
    if (status === "running" && child === "paused" && this.#pausedWithParent) {
      this.#pausedWithParent = false;
      void this.#deps.run(this.childId).catch(() => {});
    }
  }

  /** Since the call. */
  #parentWasPaused(actionId: string): boolean {
    const { events } = this.#deps.store;
    const [paused] = events.search(this.#parent.id, { kind: "PauseEvent", descending: true, limit: 1 }).items;
    const [called] = events.batch(this.#parent.id, [actionId]);
    const timeOf = (json: string) => (JSON.parse(json) as Event).timestamp;
    return paused !== undefined && Boolean(called) && timeOf(paused) >= timeOf(called!);
  }

  #result(): TaskObservation {
    const child = this.#child();
    const task = child?.config.task;
    const status = child?.summary.executionStatus;
    const said = child ? this.#lastWords() : undefined;
    const done = status === "finished";
    const text = done ? (said ?? "(The sub-agent finished without a word.)") : this.#failure(status, said);
    return {
      kind: "TaskObservation",
      content: [
        textContent(text.length > maxAnswer ? `${text.slice(0, maxAnswer)}\n[The rest was cut off.]` : text),
      ],
      is_error: !done,
      task_id: task?.id ?? "",
      subagent: task?.subagent ?? "",
      status: done ? "completed" : "error",
    };
  }

  #failure(status: ExecutionStatus | undefined, said: string | undefined): string {
    const last = this.#last(["ConversationErrorEvent"]);
    const detail = status === "error" && last?.kind === "ConversationErrorEvent" ? `: ${last.detail}` : ".";
    const why = {
      error: `The sub-agent ended with an error${detail}`,
      stuck: "The sub-agent got stuck: it repeated itself.",
      paused: "The sub-agent was interrupted by the user.",
      idle: "The user rejected what the sub-agent was going to do, and it stopped.",
    }[status as "error" | "stuck" | "paused" | "idle"];
    return `${why ?? "The sub-agent was deleted."}${said ? `\nIts last words before that:\n${said}` : ""}`;
  }

  /** The message of its finish, or what it said last. */
  #lastWords(): string | undefined {
    for (const event of this.#recent()) {
      if (event.kind === "ActionEvent" && event.action?.kind === "FinishAction") return event.action.message;
      if (event.kind === "MessageEvent" && event.source === "agent") {
        const text = contentText(event.llm_message.content);
        if (text.trim()) return text;
      }
      if (event.kind === "MessageEvent" && event.source === "user") return undefined;
    }
    return undefined;
  }

  #last(kinds: readonly Event["kind"][]): Event | undefined {
    return this.#recent().find(({ kind }) => kinds.includes(kind));
  }

  /** Newest first. */
  #recent(): Event[] {
    const { items } = this.#deps.store.events.search(this.childId, { descending: true, limit: lookBack });
    return items.map((json) => JSON.parse(json) as Event);
  }

  #child(): ConversationRow | undefined {
    return this.#deps.store.conversations.get(this.childId);
  }
}

export interface SubAgentDependencies {
  store: Pick<Store, "conversations" | "events" | "contexts" | "agents">;
  settings: Pick<Settings, "agent" | "profileModel">;
  agents: Pick<AgentConfigResolver, "clientAgent" | "policy">;
  runner: Pick<Runner, "abort" | "useTaskMetrics">;
  /** Those of the project that were there when the conversation began. */
  known(id: string): readonly ListedAgent[];
  /** Those of the project now. Throws what `exec` throws. */
  definitions(row: ConversationRow): Promise<readonly AgentDefinition[]>;
  send(id: string, content: ReturnType<typeof textContent>[], options: SendOptions): Promise<void>;
  run(id: string): Promise<void>;
  pause(id: string): Promise<void>;
  reject(id: string, reason: string): Promise<void>;
}
