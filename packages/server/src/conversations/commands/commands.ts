import { transition } from "@sandpiper/agent/loop/status";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Content } from "@sandpiper/wire";
import type { Store } from "../../store/store.ts";
import type { ConversationLookup } from "../access.ts";
import type { SendOptions } from "../api.ts";
import { rejectActions, unansweredReason } from "../log/rejections.ts";
import type { Runner } from "../run/runner.ts";
import type { SubAgents } from "../run/sub-agents.ts";
import type { Goals } from "./goals.ts";
import type { Sending } from "./sending.ts";

export interface CommandsDeps {
  store: Pick<Store, "conversations" | "events">;
  access: ConversationLookup;
  runner: Runner;
  sending: Pick<Sending, "send">;
  goals: Pick<Goals, "stop">;
  subAgents: Pick<SubAgents, "approve" | "isWaiting" | "reject">;
}

/** What users tell the agents of conversations; each method as in `Conversations`. */
export class Commands {
  readonly #deps: CommandsDeps;
  /** Commands to run, and what answers actions that wait. */
  readonly #answers = new KeyedMutex();

  constructor(deps: CommandsDeps) {
    this.#deps = deps;
  }

  async send(id: string, content: Content[], options: SendOptions): Promise<void> {
    const { access, goals, sending, subAgents } = this.#deps;
    const row = access.requireWithSandbox(id);
    const stopsGoal = !options.ofGoal && row.config.goal?.status === "running";
    if (stopsGoal) await goals.stop(row);
    // It rejects what waits, unless an approval is on its way.
    const rejects =
      options.run && access.requireWithSandbox(id).summary.executionStatus === "waiting_for_confirmation";
    const send = async () => {
      if (rejects && subAgents.isWaiting(id))
        await this.#answerSubAgents(id, () => subAgents.reject(id, unansweredReason));
      await sending.send(access.requireWithSandbox(id), content, options);
    };
    await (rejects ? this.#answers.run(id, send) : send());
  }

  run(id: string): Promise<void> {
    this.#deps.runner.announcements.cancelRepeat(id);
    // One at a time: of two approvals the second finds the run under way.
    return this.#answers.run(id, () => this.#run(id));
  }

  async #run(id: string): Promise<void> {
    const { access, runner, store, subAgents } = this.#deps;
    const row = access.requireWithSandbox(id);
    const status = row.summary.executionStatus;
    if (status === "running" && (runner.isAwake(id) || runner.isWaiting(row))) {
      throw new PlatformError(
        "ConversationRunning",
        "Conversation already running. Wait for completion or pause first.",
      );
    }
    if (status === "finished") return runner.announcements.announceEnd(id);
    if (status === "waiting_for_confirmation" && subAgents.isWaiting(id))
      return this.#answerSubAgents(id, () => subAgents.approve(id));
    // Before the record: a run that is ending sees that at once and makes way for the next.
    const takeBack = status === "waiting_for_confirmation" ? runner.approve(id) : undefined;
    try {
      const records = transition(status, takeBack ? "approve" : "run");
      if (records.length > 0) await store.events.append(id, records);
    } catch (error) {
      takeBack?.();
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

  /** What a conversation waits with is an answer to its sub-agents: it goes on with them. */
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
