import { transcript } from "@sandpiper/agent/condenser/transcript";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Histories } from "../run/histories.ts";
import type { SideCalls } from "../run/side-calls.ts";

const judgeInstructions = `You judge whether a software engineer has reached a goal. You get the goal and what was done for it. Believe what the results of calls show, not what is claimed: a test that was not run has not passed. Answer with one JSON object and nothing else:
{"done": true or false, "feedback": "what is missing, and what to do next; or, when it is done, what shows that"}`;

export interface GoalJudgeDeps {
  histories: Pick<Histories, "promptHistory">;
  sideCalls: Pick<SideCalls, "ask">;
}

/** Asks the conversation's model whether the agent has reached a goal. */
export class GoalJudge {
  readonly #deps: GoalJudgeDeps;

  constructor(deps: GoalJudgeDeps) {
    this.#deps = deps;
  }

  /** Throws what the model call throws, and BudgetReached. */
  async judge(row: ConversationRow, objective: string): Promise<{ done: boolean; feedback: string }> {
    const { histories, sideCalls } = this.#deps;
    const history = transcript((await histories.promptHistory(row)).messages);
    const question = `<GOAL>\n${objective}\n</GOAL>\n\n<WORK>\n${history}\n</WORK>`;
    return parseVerdict(await sideCalls.ask(row, "goal", judgeInstructions, question));
  }
}

/** The verdict in a judge's answer; an unreadable answer counts as not done and as feedback. */
function parseVerdict(answer: string): { done: boolean; feedback: string } {
  const json = answer.slice(answer.indexOf("{"), answer.lastIndexOf("}") + 1);
  try {
    const { done, feedback } = JSON.parse(json) as { done?: unknown; feedback?: unknown };
    return { done: done === true, feedback: typeof feedback === "string" ? feedback : "" };
  } catch {
    return { done: false, feedback: answer };
  }
}
