import type {
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";
import { InvalidResponseDataError } from "@ai-sdk/provider";
import type { ThinkingBlock, TokenUsage } from "@sandpiper/wire";
import { AnswerBound, maxAnswerChars } from "./answer-bound.ts";
import { type CatalogueEntry, callCost } from "./catalogue.ts";
import { CallCollector } from "./collect-calls.ts";
import { ThoughtCollector } from "./collect-thoughts.ts";
import { EmptyResponse } from "./failure.ts";
import type { ModelRequest, ModelResponse } from "./model.ts";
import { detailsBlock } from "./reasoning-details.ts";
import type { ModelAddress } from "./resolve.ts";
import { phaseBlock } from "./thinking.ts";

/** Characters of a token, about. */
const charsOfToken = 4;

/**
 * Folds the parts of one streamed answer. `add` throws errors of the stream; `response` throws when
 * the stream is incomplete or empty. An oversized answer (`isFull`) ends there, as at a model's own
 * limit.
 */
export class ResponseCollector {
  readonly #address: Pick<ModelAddress, "name" | "wire">;
  readonly #facts: CatalogueEntry;
  readonly #onDelta: ModelRequest["onDelta"];
  readonly #thoughts: ThoughtCollector;
  readonly #bound = new AnswerBound();
  readonly #calls: CallCollector;
  #id = "";
  #text = "";
  #reasoning = "";
  /** Phase of the text; for several texts, of the last one. */
  #phase: string | undefined;
  #details: ThinkingBlock | undefined;
  #end: { reason: LanguageModelV4FinishReason; usage: LanguageModelV4Usage } | undefined;
  /** True once a piece was handed to `onDelta`: from then on the call cannot be repeated. */
  hasEmitted = false;
  /** True once any content arrived, arguments of tool calls included. */
  hasBegun = false;

  constructor(
    address: Pick<ModelAddress, "name" | "wire">,
    facts: CatalogueEntry,
    onDelta: ModelRequest["onDelta"],
  ) {
    this.#address = address;
    this.#facts = facts;
    this.#onDelta = onDelta;
    this.#thoughts = new ThoughtCollector(address.wire);
    this.#calls = new CallCollector(address.wire, this.#bound);
  }

  /** Nothing more is to be read of this answer. */
  get isFull(): boolean {
    return this.#bound.isReached;
  }

  add(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "response-metadata":
        this.#id ||= part.id ?? "";
        break;
      case "text-delta": {
        const text = this.#bound.take(part.delta);
        this.#text += text;
        this.#emit({ content: text });
        break;
      }
      case "text-start":
      case "text-end": {
        const phase = part.providerMetadata?.openai?.phase;
        if (typeof phase === "string") this.#phase = phase;
        break;
      }
      case "reasoning-start":
      case "reasoning-delta":
      case "reasoning-end": {
        const taken =
          part.type === "reasoning-delta" ? { ...part, delta: this.#bound.take(part.delta) } : part;
        const text = this.#thoughts.add(taken, this.#calls.calls.length);
        this.#reasoning += text;
        this.#emit({ reasoning: text });
        break;
      }
      case "tool-input-start":
      case "tool-input-delta":
      case "tool-call":
        if (part.type === "tool-input-delta") this.hasBegun = true;
        this.#calls.add(part);
        break;
      case "finish":
        this.#end = { reason: part.finishReason, usage: part.usage };
        this.#details = detailsBlock(part.providerMetadata, this.#address.name);
        break;
      case "error":
        throw part.error;
    }
  }

  response(): ModelResponse {
    if (this.isFull) this.#cut();
    const toolCalls = this.#calls.calls;
    const { reason, usage } = this.#end ?? { reason: { unified: "interrupted" as const, raw: undefined } };
    // Bedrock's client calls a stream that ended without saying why an end for another reason.
    const isCut =
      reason.unified === "interrupted" ||
      reason.unified === "error" ||
      (reason.unified === "other" && !reason.raw);
    if (!usage || isCut) {
      throw new InvalidResponseDataError({
        data: undefined,
        message: "the endpoint closed the connection before the end of its answer",
      });
    }
    const id = this.#id || `response-${crypto.randomUUID()}`;
    const tokens = toTokenUsage(usage, this.#address.name, this.#facts.contextWindow, id);
    const isEmpty = !this.#text.trim() && !this.#reasoning && toolCalls.length === 0;
    // A model may answer with nothing, which the agent handles; an endpoint that counts no output
    // has not answered.
    if (isEmpty && tokens.completion_tokens === 0 && reason.unified !== "content-filter") {
      throw new EmptyResponse("the endpoint sent an empty answer");
    }
    return {
      id,
      text: this.#text,
      ...(this.#reasoning && { reasoning: this.#reasoning }),
      thinkingBlocks: this.#blocks(),
      ...(this.#address.wire === "responses" && { reasoningItems: this.#thoughts.items }),
      toolCalls,
      usage: tokens,
      cost: callCost(this.#facts, tokens),
      finishReason: finishReason(reason.unified, toolCalls.length > 0),
    };
  }

  /** Data that the provider expects back. */
  #blocks(): ThinkingBlock[] {
    const phase = this.#phase === undefined ? undefined : phaseBlock(this.#phase, this.#address.name);
    return [...this.#thoughts.blocks, this.#calls.signature, this.#details, phase].filter(
      (block) => block !== undefined,
    );
  }

  /** The provider's token count comes at the end, which was not read. */
  #cut(): void {
    this.#calls.cut();
    const none = { noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
    this.#end ??= {
      reason: { unified: "length", raw: undefined },
      usage: {
        inputTokens: { total: undefined, ...none },
        outputTokens: {
          total: Math.ceil(maxAnswerChars / charsOfToken),
          text: undefined,
          reasoning: undefined,
        },
      },
    };
  }

  #emit(delta: { content?: string; reasoning?: string }): void {
    if (!delta.content && !delta.reasoning) return;
    this.hasBegun = true;
    this.hasEmitted = true;
    this.#onDelta?.(delta);
  }
}

function finishReason(
  unified: LanguageModelV4FinishReason["unified"],
  hasToolCalls: boolean,
): ModelResponse["finishReason"] {
  // Some endpoints say "stop" after tool calls.
  if (hasToolCalls && unified === "stop") return "tool-calls";
  return unified === "error" || unified === "interrupted" ? "other" : unified;
}

/** Tokens of one call; missing counts are 0. Prompt tokens include cache reads and writes. */
function toTokenUsage(
  usage: LanguageModelV4Usage,
  model: string,
  contextWindow: number,
  responseId: string,
): TokenUsage {
  const prompt = usage.inputTokens.total ?? 0;
  const completion = usage.outputTokens.total ?? 0;
  return {
    model,
    prompt_tokens: prompt,
    completion_tokens: completion,
    cache_read_tokens: usage.inputTokens.cacheRead ?? 0,
    cache_write_tokens: usage.inputTokens.cacheWrite ?? 0,
    reasoning_tokens: usage.outputTokens.reasoning ?? 0,
    context_window: contextWindow,
    per_turn_token: prompt + completion,
    response_id: responseId,
  };
}
