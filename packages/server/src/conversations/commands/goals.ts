import { transcript } from "@sandpiper/agent/condenser/transcript";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Content } from "@sandpiper/wire";
import { newId, textContent } from "@sandpiper/wire";
import type { ConversationRow, Goal } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { SendOptions } from "../api.ts";
import type { Runner } from "../run/runner.ts";
import type { SideCalls } from "../run/side-calls.ts";

const judgeInstructions = `You judge whether a software engineer has reached a goal. You get the goal and what was done for it. Believe what the results of calls show, not what is claimed: a test that was not run has not passed. Answer with one JSON object and nothing else:
{"done": true or false, "feedback": "what is missing, and what to do next; or, when it is done, what shows that"}`;

export interface GoalsDeps {
  store: Pick<Store, "conversations" | "events">;
  runner: Pick<Runner, "announcements" | "histories" | "isAwake">;
  sideCalls: Pick<SideCalls, "askWithoutHistory">;
  send(id: string, content: Content[], options: SendOptions): Promise<void>;
  logger: Logger;
}

/**
 * Goals: the agent works, its work is judged, and it is told what is missing, until the goal is reached or there were enough rounds
 * (agent-server.md section 3, goal). What comes next is stored before it is done, so a later process goes on where this one ended.
 */
export class Goals {
  readonly #deps: GoalsDeps;
  /** Conversations whose verdict or next message is on its way. */
  readonly #busy = new Map<string, Promise<void>>();
  /** Those that came to rest meanwhile: their goal was stopped and taken up again. */
  readonly #restedAgain = new Set<string>();
  /** Changes of goals, of one conversation one after the other: each sees what the one before has left. */
  readonly #changes = new KeyedMutex();
  #closing = false;

  constructor(deps: GoalsDeps) {
    this.#deps = deps;
  }

  /** Goes on with the goals of a process that died. */
  open(): void {
    for (const { id } of this.#deps.store.conversations.listWithGoal()) this.onRest(id);
  }

  /** Begins to pursue a goal. Throws BadRequest for an empty one, GoalRunning, and ConversationRunning. */
  async start(row: ConversationRow, objective: string, maxIterations: number): Promise<void> {
    if (objective.trim() === "") throw new PlatformError("BadRequest", "The objective of a goal is a text.");
    const text = `Reach this goal. Check the result yourself before you call finish: your work is judged against it.\n\n<GOAL>\n${objective}\n</GOAL>`;
    const begun = { objective, maxIterations, status: "running", detail: null } as const;
    await this.#changes.run(row.id, async () => {
      this.#requireIdle(row.id);
      await this.#startIteration(row.id, { ...begun, iteration: 1, messageId: newId(), message: text });
    });
  }

  /** Stops judging; the run goes on. Nothing to stop is fine. */
  async stop(row: ConversationRow): Promise<void> {
    if (row.config.goal?.status === "running")
      await this.#change(row.id, (goal) => this.#set(row.id, { ...goal, status: "interrupted" }));
  }

  /** Goes on with a goal that was stopped. Throws BadRequest where there is none, GoalRunning, and ConversationRunning. */
  async resume(row: ConversationRow): Promise<void> {
    await this.#changes.run(row.id, async () => {
      const goal = this.#requireIdle(row.id);
      if (goal?.status !== "interrupted" && goal?.status !== "failed")
        throw new PlatformError("BadRequest", "There is no goal to resume: none was stopped.");
      const message = `Go on with the goal where you were.\n\n<GOAL>\n${goal.objective}\n</GOAL>`;
      await this.#startIteration(row.id, { ...goal, status: "running", messageId: newId(), message });
    });
  }

  /** A conversation rests: its goal, where it has one, is judged. */
  onRest(id: string): void {
    if (this.#closing) return;
    if (this.#busy.has(id)) return void this.#restedAgain.add(id);
    const goal = this.#activeGoal(id);
    if (!goal) return;
    const work = this.#advance(id, goal)
      .catch((error) => this.#fail(id, goal, error))
      .finally(() => {
        this.#busy.delete(id);
        if (this.#restedAgain.delete(id)) this.onRest(id);
      });
    this.#busy.set(id, work);
  }

  /** Leaves the rest to the next start. */
  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.#busy.values());
  }

  async #advance(id: string, goal: Goal): Promise<void> {
    const { store, sideCalls, runner } = this.#deps;
    const row = store.conversations.get(id);
    if (!row || runner.isAwake(id)) return;
    const same = (work: () => Promise<void>) =>
      this.#change(id, (now) => (now.messageId === goal.messageId ? work() : undefined));
    if (store.events.batch(id, [goal.messageId])[0] === null)
      return same(() => this.#startIteration(id, goal));
    const status = row.summary.executionStatus;
    if (status === "paused") return this.stop(row);
    if (status === "error" || status === "stuck")
      return same(() => this.#set(id, { ...goal, status: "failed", detail: `The run ended as ${status}.` }));
    if (status !== "finished") return;

    const history = transcript((await runner.histories.promptHistory(row)).messages);
    const answer = await sideCalls.askWithoutHistory(
      row,
      "goal",
      judgeInstructions,
      `<GOAL>\n${goal.objective}\n</GOAL>\n\n<WORK>\n${history}\n</WORK>`,
    );
    const { done, feedback } = parseVerdict(answer);
    // It may have been stopped, or written to, while it was judged.
    await same(async () => {
      if (runner.isAwake(id)) return;
      if (done) return this.#set(id, { ...goal, status: "complete", detail: feedback });
      if (goal.iteration >= goal.maxIterations)
        return this.#set(id, { ...goal, status: "exhausted", detail: feedback });
      const message = `The goal is not reached yet.\n\n<FEEDBACK>\n${feedback}\n</FEEDBACK>\n\nGo on until it is.`;
      await this.#startIteration(id, {
        ...goal,
        iteration: goal.iteration + 1,
        detail: feedback,
        messageId: newId(),
        message,
      });
    });
  }

  /** Stores an iteration, and begins it. Where that fails nothing is pursued any more; a process that is ending leaves it to the next. */
  async #startIteration(id: string, goal: Goal): Promise<void> {
    await this.#set(id, goal);
    const content = [textContent(goal.message)];
    try {
      await this.#deps.send(id, content, {
        run: true,
        sender: "goal",
        eventId: goal.messageId,
        ofGoal: true,
      });
    } catch (error) {
      if (!this.#closing)
        await this.#set(id, { ...goal, status: "failed", detail: errorText(error) }).catch(() => {});
      throw error;
    }
  }

  async #set(id: string, goal: Goal): Promise<void> {
    await this.#deps.store.conversations.update(id, { config: { goal } });
    this.#deps.runner.announcements.announce(id);
  }

  /** Changes the goal that is pursued, if there is one, as it is then. */
  #change(id: string, change: (goal: Goal) => Promise<void> | undefined): Promise<void> {
    return this.#changes.run(id, async () => {
      const goal = this.#activeGoal(id);
      if (goal) await change(goal);
    });
  }

  async #fail(id: string, { messageId }: Goal, error: unknown): Promise<void> {
    if (this.#closing) return;
    if (!(error instanceof PlatformError))
      this.#deps.logger.error({ err: error, conversation: id }, "a goal could not be judged");
    const failed = { status: "failed", detail: errorText(error) } as const;
    await this.#change(id, (goal) =>
      goal.messageId === messageId ? this.#set(id, { ...goal, ...failed }) : undefined,
    ).catch(() => {});
  }

  /** Gives the goal that there was. */
  #requireIdle(id: string): Goal | undefined {
    const { config, summary } = this.#deps.store.conversations.get(id) ?? {};
    if (config?.goal?.status === "running")
      throw new PlatformError("GoalRunning", "A goal is being pursued already: stop it first.");
    if (summary?.executionStatus === "running" || this.#deps.runner.isAwake(id))
      throw new PlatformError(
        "ConversationRunning",
        "Conversation already running. Wait for completion or pause first.",
      );
    return config?.goal;
  }

  #activeGoal(id: string): Goal | undefined {
    const goal = this.#deps.store.conversations.get(id)?.config.goal;
    return goal?.status === "running" ? goal : undefined;
  }
}

/** The verdict in a judge's answer. One that cannot be read is not done, and its text is the feedback. */
function parseVerdict(answer: string): { done: boolean; feedback: string } {
  const [object] = /\{[\s\S]*\}/.exec(answer) ?? [];
  try {
    const { done, feedback } = JSON.parse(object ?? "") as { done?: unknown; feedback?: unknown };
    return { done: done === true, feedback: typeof feedback === "string" ? feedback : "" };
  } catch {
    return { done: false, feedback: answer };
  }
}
