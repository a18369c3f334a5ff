import { listed, nudge } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
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
import type { ConversationLookup } from "../lookup.ts";
import type { Runner } from "../run/runner.ts";
import type { SubAgentRunner } from "../run/sub-agent-runner.ts";
import type { Titles } from "../run/titles.ts";
import type { Goals } from "./goals.ts";

export interface CommandsDeps {
  store: Pick<Store, "conversations" | "events">;
  access: ConversationLookup;
  runner: Runner;
  goals: Pick<Goals, "stop">;
  subAgents: Pick<SubAgentRunner, "approve" | "isWaiting" | "reject">;
  toolsets: Pick<Toolsets, "forConversation">;
  /** Prepares the tools within a bounded time; returns notes for the model and the user. */
  prepare(row: ConversationRow, signal: AbortSignal): Promise<readonly string[]>;
  knowledge: Pick<ProjectKnowledge, "activate" | "recordActivation" | "systemPrompt">;
  titles: Pick<Titles, "generate">;
  masks: Pick<OutputMasks, "forConversation">;
}

/** Maximum wait for the tools of a first message, ms. */
const prepareTimeoutMs = 15_000;

/** Commands of users to the agents of conversations; see `Conversations` for each method. */
export class Commands {
  readonly #deps: CommandsDeps;
  /** Serialises runs and the answers to pending actions of a conversation. */
  readonly #answers = new KeyedMutex();
  /** First messages that are being appended, by conversation. */
  readonly #opening = new Map<string, Promise<void>>();

  constructor(deps: CommandsDeps) {
    this.#deps = deps;
  }

  async send(id: string, content: Content[], options: SendOptions): Promise<void> {
    const { access, goals, subAgents } = this.#deps;
    const row = access.requireWithSandbox(id);
    const stopsGoal = !options.ofGoal && row.config.goal?.status === "running";
    if (stopsGoal) await goals.stop(row);
    // The message rejects pending actions, unless an approval is already queued.
    const rejects =
      options.run && access.requireWithSandbox(id).summary.executionStatus === "waiting_for_confirmation";
    const deliver = async () => {
      if (rejects && subAgents.isWaiting(id))
        await this.#answerSubAgents(id, () => subAgents.reject(id, unansweredReason));
      await this.#deliver(access.requireWithSandbox(id), content, options);
    };
    await (rejects ? this.#answers.run(id, deliver) : deliver());
  }

  /** Appends a message after earlier first messages, and the system prompt before the first one. */
  async #deliver(row: ConversationRow, content: Content[], options: SendOptions): Promise<void> {
    const { store, runner, prepare } = this.#deps;
    const { id } = row;
    runner.announcements.cancelRepeat(id);
    let opening = this.#opening.get(id);
    const hasWaited = opening !== undefined;
    for (; opening; opening = this.#opening.get(id)) await opening;
    const latest = hasWaited ? (store.conversations.get(id) ?? row) : row;
    const hasBegun = latest.head === null ? store.events.lastSeq(id) > 0 : latest.head !== "";
    if (hasBegun) return this.#append(latest, content, options);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#opening.set(id, promise);
    try {
      // The system prompt lists the tools, so they are prepared first (events.md section 5).
      const notes = await prepare(latest, AbortSignal.timeout(prepareTimeoutMs)).catch(() => []);
      await this.#append(latest, content, options, notes);
    } finally {
      this.#opening.delete(id);
      resolve();
    }
  }

  /** `notes` is set for the first message, before which the system prompt is appended. */
  async #append(
    row: ConversationRow,
    content: Content[],
    options: SendOptions,
    notes?: readonly string[],
  ): Promise<void> {
    const { store, knowledge, masks, runner, titles, toolsets } = this.#deps;
    const { id } = row;
    const { delivers, eventId, run, sender } = options;
    const prompt = notes && listed(knowledge.systemPrompt(row, toolsets.forConversation(row).tools));
    const skills = knowledge.activate(row, content);
    const message = { ...userMessage(content, sender, skills), ...(eventId && { id: eventId }) };
    const status = row.summary.executionStatus;
    const rejects = run && status === "waiting_for_confirmation";
    const records = [
      ...(prompt ? [prompt] : []),
      ...(rejects ? rejectActions(runner.histories.openActions(id), unansweredReason) : []),
      listed(message),
      ...(notes ?? []).map(nudge),
      ...transition(status, run ? "messageAndRun" : "message"),
    ];
    await store.events.append(id, records, { delivers });
    await knowledge.recordActivation(id, skills);
    const title = makeTitle(content, (text) => masks.forConversation(row).text(text));
    const isFirst = notes !== undefined && row.config.autotitle !== false;
    const untitled = row.title === null ? isFirst : row.title === `Conversation ${hexId(id).slice(0, 5)}`;
    if (untitled && title) await store.conversations.update(id, { title });
    if (untitled || (isFirst && row.title === title)) titles.generate(id, content);
    if (run) runner.wake(id);
    else if (untitled && title) runner.announcements.announceTitle(id);
  }

  run(id: string): Promise<void> {
    this.#deps.runner.announcements.cancelRepeat(id);
    // Serialised, so that the second of two approvals finds the run in progress.
    return this.#answers.run(id, () => this.#run(id));
  }

  async #run(id: string): Promise<void> {
    const { access, runner, store, subAgents } = this.#deps;
    const row = access.requireWithSandbox(id);
    const status = row.summary.executionStatus;
    if (status === "running" && (runner.isAwake(id) || runner.isWaiting(row)))
      throw new PlatformError("AlreadyRunning");
    if (status === "finished") return runner.announcements.announceEnd(id);
    if (status === "waiting_for_confirmation" && subAgents.isWaiting(id))
      return this.#answerSubAgents(id, () => subAgents.approve(id));
    // Approved before the append, so that an ending run makes way for the next run at once.
    const revoke = status === "waiting_for_confirmation" ? runner.approve(id) : undefined;
    try {
      const records = transition(status, revoke ? "approve" : "run");
      if (records.length > 0) await store.events.append(id, records);
    } catch (error) {
      revoke?.();
      throw error;
    }
    runner.wake(id);
  }

  reject(id: string, reason: string): Promise<void> {
    return this.#answers.run(id, () => this.#reject(id, reason));
  }

  async #reject(id: string, reason: string): Promise<void> {
    const { access, runner, store, subAgents } = this.#deps;
    const status = access.requireLocal(id).summary.executionStatus;
    if (status !== "waiting_for_confirmation") return;
    if (subAgents.isWaiting(id)) return this.#answerSubAgents(id, () => subAgents.reject(id, reason));
    const records = rejectActions(runner.histories.openActions(id), reason);
    await store.events.append(id, [...records, ...transition(status, "reject")]);
    runner.announcements.announceEnd(id);
  }

  /** Answers waiting sub-agents, with which the conversation then continues. */
  async #answerSubAgents(id: string, answer: () => Promise<void>): Promise<void> {
    const { access, runner, store } = this.#deps;
    await answer();
    const records = transition(access.requireLocal(id).summary.executionStatus, "subAgentsAnswered");
    if (records.length > 0) await store.events.append(id, records);
    runner.wake(id);
  }

  async pause(id: string): Promise<void> {
    const { access, runner, store } = this.#deps;
    const records = transition(access.requireLocal(id).summary.executionStatus, "pause");
    if (records.length === 0) return;
    await store.events.append(id, records);
    runner.announcements.announceEnd(id);
  }

  async interrupt(id: string): Promise<void> {
    const { access, runner } = this.#deps;
    access.requireLocal(id);
    if (runner.isAwake(id)) await runner.abort(id, "interrupt");
    else await this.pause(id);
  }
}
