import { transcript } from "@sandpiper/agent/condenser/transcript";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Histories } from "../run/histories.ts";
import type { SideCalls } from "../run/side-calls.ts";

const judgeInstructions = `You judge whether a software engineer has reached a goal. You get the goal and what was done for it. Believe what the results of calls show, not what is claimed: a test that was not run has not passed. Answer with one JSON object and nothing else:
{"done": true or false, "score": 0 to 1, how sure it is that the whole goal is reached, "feedback": "what is missing, and what to do next; or, when it is done, what shows that"}`;

/** Whether the goal is reached, how sure that is (0 to 1), and what is missing. */
export interface Verdict {
  done: boolean;
  score: number;
  feedback: string;
}

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
  async judge(row: ConversationRow, objective: string): Promise<Verdict> {
    const { histories, sideCalls } = this.#deps;
    const history = transcript((await histories.promptHistory(row)).messages);
    const question = `<GOAL>\n${objective}\n</GOAL>\n\n<WORK>\n${history}\n</WORK>`;
    return parseVerdict(await sideCalls.ask(row, "goal", judgeInstructions, question));
  }
}

/** The verdict in a judge's answer; an unreadable answer counts as not done and as feedback. */
function parseVerdict(answer: string): Verdict {
  const json = answer.slice(answer.indexOf("{"), answer.lastIndexOf("}") + 1);
  try {
    const { done, score, feedback } = JSON.parse(json) as { [name in keyof Verdict]?: unknown };
    return {
      done: done === true,
      score: typeof score === "number" && score >= 0 && score <= 1 ? score : Number(done === true),
      feedback: typeof feedback === "string" ? feedback : "",
    };
  } catch {
    return { done: false, score: 0, feedback: answer };
  }
}
