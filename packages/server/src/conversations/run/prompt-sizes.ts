import type { ContextLimits } from "@sandpiper/agent/condenser/context-limits";
import type { CondenserOptions } from "@sandpiper/agent/condenser/options";
import type { SummaryBounds } from "@sandpiper/agent/condenser/summarise";
import { maxTranscriptChars } from "@sandpiper/agent/condenser/transcript";
import { charsOf } from "@sandpiper/agent/prompt/view-size";
import type { Model } from "@sandpiper/models/model";
import type { TokenUsage } from "@sandpiper/wire";
import type { LogFollower } from "../log/follower.ts";

/** Characters of a summary, and of each thing that is added to it word for word. */
const [minSummaryChars, maxSummaryChars] = [2_000, 32_000];

/** Tokens behind the beginning that a limit leaves at least: a smaller limit would have each answer forgotten at once. */
const minRoom = 8_000;

export interface PromptSizesEnvironment {
  userId: string;
  follower: LogFollower;
  limits: Pick<ContextLimits, "of">;
}

/** How long the prompts of a run are, and how long they and its summaries may be. */
export class PromptSizes {
  readonly #env: PromptSizesEnvironment;

  constructor(env: PromptSizesEnvironment) {
    this.#env = env;
  }

  /** Tokens of the next prompt. */
  tokens(): number {
    return this.#env.follower.view.promptTokens(this.usage());
  }

  /** Tokens of the system prompt and the first message. */
  beginning(): number {
    const { view } = this.#env.follower;
    return view.systemTokens + (view.messages[0] ? view.tokensOf(view.messages[0]) : 0);
  }

  /** Tokens that a prompt may have. */
  limit(model: Model | undefined, options: CondenserOptions | undefined): number {
    const { limits, userId } = this.#env;
    const known = model ? limits.of(userId, model) : Number.POSITIVE_INFINITY;
    return Math.min(
      known,
      Math.max(options?.maxTokens ?? Number.POSITIVE_INFINITY, this.beginning() + minRoom),
    );
  }

  /** Of a summary for which there are so many tokens; `scale` makes what it is made of shorter. */
  bounds(condenser: Model, room: number, scale: number): SummaryBounds {
    const read = charsOf(Math.min(room, this.#env.limits.of(this.#env.userId, condenser) * 0.8));
    return {
      transcript: Math.max(minSummaryChars, Math.min(read, maxTranscriptChars) * scale),
      summary: Math.min(maxSummaryChars, Math.max(minSummaryChars, charsOf(room / 8))),
    };
  }

  /** What the provider counted at the agent's last call. */
  usage(): TokenUsage | undefined {
    return this.#env.follower.state.stats.usage_to_metrics.agent?.accumulated_token_usage ?? undefined;
  }
}
