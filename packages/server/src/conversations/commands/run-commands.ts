import { transition } from "@sandpiper/agent/loop/status";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import { rejectActions, unansweredReason } from "../log/rejections.ts";
import type { ConversationLookup } from "../lookup.ts";
import type { Announcements } from "../run/announcements.ts";
import type { Histories } from "../run/histories.ts";
import type { Runner } from "../run/runner.ts";
import type { SubAgentRunner } from "../run/sub-agent-runner.ts";

export interface RunCommandsDeps {
  store: Pick<Store, "events">;
  access: ConversationLookup;
  runner: Pick<Runner, "append" | "isAwake" | "isWaiting" | "leaveQueue" | "wake" | "abort">;
  histories: Pick<Histories, "openActions">;
  announcements: Pick<Announcements, "announceEnd" | "duringRunCall">;
  subAgents: Pick<SubAgentRunner, "approve" | "isWaiting" | "reject">;
}

/** Commands of users to the runs of agents; see `ConversationCommands` for each method. */
export class RunCommands {
  readonly #deps: RunCommandsDeps;
  /** Serialises runs and the answers to pending actions of a conversation. */
  readonly #answers = new KeyedMutex();

  constructor(deps: RunCommandsDeps) {
    this.#deps = deps;
  }

  run(id: string): Promise<void> {
    // Serialised, so that the second of two approvals finds the run in progress.
    return this.#deps.announcements.duringRunCall(id, () => this.#answers.run(id, () => this.#run(id)));
  }

  async #run(id: string): Promise<void> {
    const { access, runner, announcements, subAgents } = this.#deps;
    let row = await access.requireWithSandbox(id);
    if (isWaiting(row)) {
      if (await subAgents.isWaiting(id)) return this.#answerSubAgents(id, () => subAgents.approve(id));
      // A move of HEAD, for example, may have ended the wait in the meantime.
      row = await access.requireLocal(id);
    }
    const status = row.summary.executionStatus;
    if (status === "running" && (runner.isAwake(id) || runner.isWaiting(row)))
      throw new PlatformError("AlreadyRunning");
    if (status === "finished") return announcements.announceEnd(id);
    const records = transition(status, isWaiting(row) ? "approve" : "run");
    if (records.length > 0) await runner.append(row, records);
    await runner.wake(id);
  }

  reject(id: string, reason: string): Promise<void> {
    return this.#answers.run(id, () => this.#reject(id, reason));
  }

  async #reject(id: string, reason: string): Promise<void> {
    const { access, histories, store, subAgents } = this.#deps;
    if (!isWaiting(await access.requireLocal(id))) return;
    if (await subAgents.isWaiting(id)) return this.#answerSubAgents(id, () => subAgents.reject(id, reason));
    const records = rejectActions(await histories.openActions(id), reason);
    // A move of HEAD, for example, may have ended the wait in the meantime.
    if (!isWaiting(await access.requireLocal(id))) return;
    await store.events.append(id, [...records, ...transition("waiting_for_confirmation", "reject")]);
  }

  /** Delivers a message that answers waiting actions: those of sub-agents are rejected first. */
  answerByMessage(id: string, deliver: () => Promise<void>): Promise<void> {
    const { subAgents } = this.#deps;
    return this.#answers.run(id, async () => {
      if (await subAgents.isWaiting(id))
        await this.#answerSubAgents(id, () => subAgents.reject(id, unansweredReason));
      await deliver();
    });
  }

  /** Answers waiting sub-agents, with which the conversation then continues. */
  async #answerSubAgents(id: string, answer: () => Promise<void>): Promise<void> {
    const { access, runner } = this.#deps;
    await answer();
    const row = await access.requireLocal(id);
    const records = transition(row.summary.executionStatus, "subAgentsAnswered");
    if (records.length > 0) await runner.append(row, records);
    await runner.wake(id);
  }

  async pause(id: string): Promise<void> {
    const { access, announcements, runner, store } = this.#deps;
    const row = await access.requireLocal(id);
    const status = row.summary.executionStatus;
    const records = transition(status, "pause");
    if (records.length === 0) return;
    await store.events.append(id, records);
    await runner.leaveQueue(row);
    // A run that waits for a slot never begins, and so never ends.
    if (status === "running" && !runner.isAwake(id)) announcements.announceEnd(id);
  }

  /** Serialised: else an answer and the end of the run may each give a waiting action a result. */
  async interrupt(id: string): Promise<void> {
    const { access, runner } = this.#deps;
    await access.requireLocal(id);
    await this.#answers.run(id, async () => {
      if (!runner.isAwake(id)) await this.pause(id);
      // A run that began before the pause was stored would read it only after its first step.
      if (runner.isAwake(id)) await runner.abort(id, "interrupt");
    });
  }
}

function isWaiting({ summary }: Pick<ConversationRow, "summary">): boolean {
  return summary.executionStatus === "waiting_for_confirmation";
}
