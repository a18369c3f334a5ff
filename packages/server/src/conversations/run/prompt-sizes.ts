import type { SummaryBounds } from "@sandpiper/agent/condenser/condense";
import type { ContextLimits } from "@sandpiper/agent/condenser/context-limits";
import type { CondenserOptions } from "@sandpiper/agent/condenser/options";
import { maxTranscriptChars } from "@sandpiper/agent/condenser/transcript";
import { tokensToChars } from "@sandpiper/agent/prompt/view-size";
import type { Model } from "@sandpiper/models/model";
import type { TokenUsage } from "@sandpiper/wire";
import type { LogFollower } from "../log/follower.ts";

/** Bounds for the characters of a summary and of each text that is added to it verbatim. */
const [minSummaryChars, maxSummaryChars] = [2_000, 32_000];

/**
 * Minimum tokens that a limit leaves after the prefix: with less, each answer would be condensed at
 * once.
 */
const minFreeTokens = 8_000;

export interface PromptSizesDeps {
  userId: string;
  follower: LogFollower;
  limits: Pick<ContextLimits, "get">;
}

/** Measures the prompts of a run and bounds them and its summaries. */
export class PromptSizes {
  readonly #deps: PromptSizesDeps;

  constructor(env: PromptSizesDeps) {
    this.#deps = env;
  }

  /** Tokens of the next prompt. */
  promptTokens(): number {
    return this.#deps.follower.view.promptTokens(this.usage());
  }

  /** Tokens of the system prompt and the first message. */
  prefixTokens(): number {
    const { view } = this.#deps.follower;
    return view.systemTokens + (view.messages[0] ? view.tokensOf(view.messages[0]) : 0);
  }

  /** Maximum tokens of a prompt. */
  maxTokens(model: Model | undefined, options: CondenserOptions | undefined): number {
    const { limits, userId } = this.#deps;
    const limit = model ? limits.get(userId, model) : Number.POSITIVE_INFINITY;
    return Math.min(
      limit,
      Math.max(options?.maxTokens ?? Number.POSITIVE_INFINITY, this.prefixTokens() + minFreeTokens),
    );
  }

  /** Bounds of a summary in `room` tokens; a smaller `scale` shortens the transcript. */
  summaryBounds(condenser: Model, room: number, scale: number): SummaryBounds {
    const read = tokensToChars(Math.min(room, this.#deps.limits.get(this.#deps.userId, condenser) * 0.8));
    return {
      transcript: Math.max(minSummaryChars, Math.min(read, maxTranscriptChars) * scale),
      summary: Math.min(maxSummaryChars, Math.max(minSummaryChars, tokensToChars(room / 8))),
    };
  }

  /** The provider's count of the agent's last call. */
  usage(): TokenUsage | undefined {
    return this.#deps.follower.state.stats.usage_to_metrics.agent?.accumulated_token_usage ?? undefined;
  }
}
