import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { newId, textContent } from "@sandpiper/wire";
import type { ConversationRow, Goal } from "../../store/conversation-store.ts";
import type { SandboxScope } from "../../store/sandbox-scope.ts";
import type { Store } from "../../store/store.ts";
import type { ConversationCommands } from "../api.ts";
import { isMoved } from "../custody.ts";
import type { ActiveRuns } from "../run/active-runs.ts";
import type { Announcements } from "../run/announcements.ts";
import { presentAgentState, presentGoal } from "../run/full-state.ts";
import type { GoalJudge } from "./goal-judge.ts";

export interface GoalsDeps {
  store: Pick<Store, "conversations" | "events">;
  runs: Pick<ActiveRuns, "isAwake" | "isReleased">;
  announcements: Pick<Announcements, "announceField">;
  judge: GoalJudge;
  commands: Pick<ConversationCommands, "send">;
  logger: Logger;
}

/**
 * Pursues goals: after each run the work is judged, and the agent gets feedback, until the goal is
 * reached or the iterations are used up (agent-server.md section 3, goal). The next iteration is
 * stored before it starts, so a later process can resume it.
 */
export class Goals {
  readonly #deps: GoalsDeps;
  /** Conversations whose goal is being judged or continued. */
  readonly #busy = new Map<string, Promise<void>>();
  /** Busy conversations that came to rest again, because their goal was stopped and resumed. */
  readonly #restedAgain = new Set<string>();
  /** Serialises the changes of a conversation's goal. */
  readonly #changes = new KeyedMutex();
  #closing = false;

  constructor(deps: GoalsDeps) {
    this.#deps = deps;
  }

  /** Resumes the goals that an earlier process has left. */
  async adopt(scope: SandboxScope): Promise<void> {
    for (const { id } of await this.#deps.store.conversations.listWithGoal(scope)) this.onRest(id);
  }

  /** Throws BadRequest for an empty objective, GoalRunning, and ConversationRunning. */
  async start(row: ConversationRow, objective: string, maxIterations: number): Promise<void> {
    if (objective.trim() === "") throw new PlatformError("GoalObjectiveEmpty");
    const text = `Reach this goal. Check the result yourself before you call finish: your work is judged against it.\n\n<GOAL>\n${objective}\n</GOAL>`;
    const goal = { objective, maxIterations, status: "running", detail: null } as const;
    await this.#changes.run(row.id, async () => {
      await this.#requireIdle(row.id);
      await this.#startIteration(row.id, { ...goal, iteration: 1, messageId: newId(), message: text });
    });
  }

  /** Stops an active goal; the run continues. */
  async stop(row: ConversationRow): Promise<void> {
    if (row.config.goal?.status === "running")
      await this.#change(row.id, (goal) => this.#set(row.id, { ...goal, status: "interrupted" }));
  }

  /** Resumes a stopped goal. Throws BadRequest without one, GoalRunning, ConversationRunning. */
  async resume(row: ConversationRow): Promise<void> {
    await this.#changes.run(row.id, async () => {
      const goal = await this.#requireIdle(row.id);
      if (goal?.status !== "interrupted" && goal?.status !== "failed")
        throw new PlatformError("NoGoalToResume");
      const message = `Go on with the goal where you were.\n\n<GOAL>\n${goal.objective}\n</GOAL>`;
      await this.#startIteration(row.id, { ...goal, status: "running", messageId: newId(), message });
    });
  }

  /** Judges the active goal of a conversation whose run has ended, if it has one. */
  onRest(id: string): void {
    if (this.#closing) return;
    if (this.#busy.has(id)) return void this.#restedAgain.add(id);
    const work = this.#pursue(id).finally(() => {
      this.#busy.delete(id);
      if (this.#restedAgain.delete(id)) this.onRest(id);
    });
    this.#busy.set(id, work);
  }

  /** Waits for current work; the next process resumes the goals. */
  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.#busy.values());
  }

  /** Never rejects. */
  async #pursue(id: string): Promise<void> {
    let goal: Goal | undefined;
    try {
      goal = await this.#activeGoal(id);
      if (goal) await this.#advance(id, goal);
    } catch (error) {
      await this.#fail(id, goal, error);
    }
  }

  async #advance(id: string, goal: Goal): Promise<void> {
    const { store, runs, judge } = this.#deps;
    const [row, [sent]] = await Promise.all([
      store.conversations.get(id),
      store.events.batch(id, [goal.messageId]),
    ]);
    if (!row || runs.isAwake(id) || runs.isReleased(row)) return;
    const same = (work: () => Promise<void>) =>
      this.#change(id, (now) => (now.messageId === goal.messageId ? work() : undefined));
    if (sent === null) return same(() => this.#startIteration(id, goal));
    const status = row.summary.executionStatus;
    if (status === "paused") return this.stop(row);
    if (status === "error" || status === "stuck")
      return same(() => this.#set(id, { ...goal, status: "failed", detail: `The run ended as ${status}.` }));
    if (status !== "finished") return;

    const { done, score, feedback } = await judge.judge(row, goal.objective);
    // The goal may have been stopped, or a message sent, during the judgement.
    await same(async () => {
      if (runs.isAwake(id) || runs.isReleased(row)) return;
      if (done) return this.#set(id, { ...goal, status: "complete", detail: feedback, score });
      if (goal.iteration >= goal.maxIterations)
        return this.#set(id, { ...goal, status: "exhausted", detail: feedback, score });
      const message = `The goal is not reached yet.\n\n<FEEDBACK>\n${feedback}\n</FEEDBACK>\n\nGo on until it is.`;
      const iteration = goal.iteration + 1;
      await this.#startIteration(id, {
        ...goal,
        iteration,
        detail: feedback,
        score,
        messageId: newId(),
        message,
      });
    });
  }

  /** Stores an iteration and sends its message; a failure ends the goal, except at shutdown. */
  async #startIteration(id: string, goal: Goal): Promise<void> {
    await this.#set(id, goal);
    const content = [textContent(goal.message)];
    try {
      const options = { run: true, sender: "goal", eventId: goal.messageId, ofGoal: true };
      await this.#deps.commands.send(id, content, options);
    } catch (error) {
      if (!this.#closing && !isMoved(error))
        await this.#set(id, { ...goal, status: "failed", detail: errorText(error) }).catch(() => {});
      throw error;
    }
  }

  async #set(id: string, goal: Goal): Promise<void> {
    await this.#deps.store.conversations.update(id, { config: { goal } });
    const { announcements } = this.#deps;
    announcements.announceField(id, "agent_state", presentAgentState(goal));
    announcements.announceField(id, "goal", presentGoal(goal));
  }

  /** Changes the active goal, if there still is one when the change runs. */
  #change(id: string, change: (goal: Goal) => Promise<void> | undefined): Promise<void> {
    return this.#changes.run(id, async () => {
      const goal = await this.#activeGoal(id);
      if (goal) await change(goal);
    });
  }

  /** Ends the goal with the error, except at shutdown and when another node goes on with it. */
  async #fail(id: string, failing: Goal | undefined, error: unknown): Promise<void> {
    if (this.#closing || isMoved(error)) return;
    if (!failing || !(error instanceof PlatformError))
      this.#deps.logger.error({ err: error, conversation: id }, "a goal could not be judged");
    const failed = { status: "failed", detail: errorText(error) } as const;
    await this.#change(id, (goal) =>
      goal.messageId === failing?.messageId ? this.#set(id, { ...goal, ...failed }) : undefined,
    ).catch(() => {});
  }

  /** Returns the inactive goal. Throws GoalRunning and ConversationRunning. */
  async #requireIdle(id: string): Promise<Goal | undefined> {
    const { config, summary } = (await this.#deps.store.conversations.get(id)) ?? {};
    if (config?.goal?.status === "running") throw new PlatformError("GoalActive");
    if (summary?.executionStatus === "running" || this.#deps.runs.isAwake(id))
      throw new PlatformError("AlreadyRunning");
    return config?.goal;
  }

  async #activeGoal(id: string): Promise<Goal | undefined> {
    const goal = (await this.#deps.store.conversations.get(id))?.config.goal;
    return goal?.status === "running" ? goal : undefined;
  }
}
