import type { LanguageModelV4FinishReason, LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider";
import { InvalidResponseDataError } from "@ai-sdk/provider";
import type { MessageToolCall, ThinkingBlock, TokenUsage } from "@sandpiper/wire";
import { type CatalogueEntry, costOf } from "./catalogue.ts";
import { EmptyResponse } from "./failure.ts";
import type { ModelRequest, ModelResponse } from "./model.ts";
import type { ModelAddress } from "./resolve.ts";
import { signatureBlock } from "./thinking.ts";

/**
 * Folds the parts of one streamed answer. `add` throws what the stream reports as an error; `response` throws when the
 * stream ended before its end, or with nothing in it.
 */
export class ResponseCollector {
  readonly #address: Pick<ModelAddress, "name" | "wire">;
  readonly #facts: CatalogueEntry;
  readonly #onDelta: ModelRequest["onDelta"];
  readonly #blocks = new Map<string, ThinkingBlock>();
  readonly #toolCalls: MessageToolCall[] = [];
  #id = "";
  #text = "";
  #reasoning = "";
  #signature: ThinkingBlock | undefined;
  #end: { reason: LanguageModelV4FinishReason; usage: LanguageModelV4Usage } | undefined;
  /** True once a piece was handed to `onDelta`: from then on the call cannot be repeated. */
  hasEmitted = false;
  /** True once any content arrived, arguments of tool calls included. */
  hasBegun = false;

  constructor(address: Pick<ModelAddress, "name" | "wire">, facts: CatalogueEntry, onDelta: ModelRequest["onDelta"]) {
    this.#address = address;
    this.#facts = facts;
    this.#onDelta = onDelta;
  }

  add(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "response-metadata":
        this.#id ||= part.id ?? "";
        break;
      case "text-delta":
        this.#text += part.delta;
        this.#emit({ content: part.delta });
        break;
      case "reasoning-start":
      case "reasoning-delta":
        this.#addReasoning(part);
        break;
      case "tool-input-delta":
        this.hasBegun = true;
        break;
      case "tool-call":
        if (part.providerExecuted) break;
        this.#toolCalls.push({ id: part.toolCallId, name: part.toolName, arguments: part.input, origin: "completion" });
        this.#signature ??= signatureBlock(part.providerMetadata);
        break;
      case "finish":
        this.#end = { reason: part.finishReason, usage: part.usage };
        break;
      case "error":
        throw part.error;
    }
  }

  response(): ModelResponse {
    const { reason, usage } = this.#end ?? { reason: { unified: "interrupted" } };
    if (!usage || reason.unified === "interrupted" || reason.unified === "error") {
      throw new InvalidResponseDataError({
        data: undefined,
        message: "the endpoint closed the connection before the end of its answer",
      });
    }
    const id = this.#id || `response-${crypto.randomUUID()}`;
    const tokens = toTokenUsage(usage, this.#address.name, this.#facts.contextWindow, id);
    const isEmpty = !this.#text.trim() && !this.#reasoning && this.#toolCalls.length === 0;
    // A model may choose to say nothing, which the agent answers; an endpoint that counted no output has not answered at all.
    if (isEmpty && tokens.completion_tokens === 0 && reason.unified !== "content-filter") {
      throw new EmptyResponse("the endpoint sent an empty answer");
    }
    return {
      id,
      text: this.#text,
      ...(this.#reasoning && { reasoning: this.#reasoning }),
      thinkingBlocks: [...this.#blocks.values(), ...(this.#signature ? [this.#signature] : [])],
      toolCalls: this.#toolCalls,
      usage: tokens,
      cost: costOf(this.#facts, tokens),
      finishReason: finishReason(reason.unified, this.#toolCalls.length > 0),
    };
  }

  /** Only what Anthropic signed or encrypted is kept as blocks; they are replayed as they are. */
  #addReasoning(part: Extract<LanguageModelV4StreamPart, { type: "reasoning-start" | "reasoning-delta" }>): void {
    const text = part.type === "reasoning-delta" ? part.delta : "";
    this.#reasoning += text;
    this.#emit({ reasoning: text });
    const metadata = part.providerMetadata?.anthropic;
    if (typeof metadata?.redactedData === "string") {
      this.#blocks.set(part.id, { type: "redacted_thinking", data: metadata.redactedData });
    }
    let block = this.#blocks.get(part.id);
    if (!block && this.#address.wire === "anthropic") {
      block = { type: "thinking", thinking: "" };
      this.#blocks.set(part.id, block);
    }
    if (block?.type !== "thinking") return;
    block.thinking += text;
    if (typeof metadata?.signature === "string") block.signature = metadata.signature;
  }

  #emit(delta: { content?: string; reasoning?: string }): void {
    if (!delta.content && !delta.reasoning) return;
    this.hasBegun = true;
    this.hasEmitted = true;
    this.#onDelta?.(delta);
  }
}

function finishReason(unified: LanguageModelV4FinishReason["unified"], hasToolCalls: boolean): ModelResponse["finishReason"] {
  // Some endpoints say "stop" after tool calls.
  if (hasToolCalls && unified === "stop") return "tool-calls";
  return unified === "error" || unified === "interrupted" ? "other" : unified;
}

/** Tokens of one call; what the endpoint did not count is 0. Prompt tokens include cache reads and writes. */
function toTokenUsage(usage: LanguageModelV4Usage, model: string, contextWindow: number, responseId: string): TokenUsage {
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
