import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { MessageToolCall, ThinkingBlock } from "@sandpiper/wire";
import type { AnswerBound } from "./answer-bound.ts";
import type { Wire } from "./providers.ts";
import { signatureBlock } from "./thinking.ts";

type CallPart = Extract<
  LanguageModelV4StreamPart,
  { type: "tool-input-start" | "tool-input-delta" | "tool-call" }
>;

/** More than any model calls at once. Beyond it an endpoint is broken or hostile. */
const maxToolCalls = 2_000;

/**
 * Characters of the arguments of an oversized call that are kept, so that the call can be
 * recognised.
 */
const keptOfCut = 2_000;

/** Longer names are no tool's. */
const maxNameChars = 256;
/** Longer ids are replaced by the agent's own. */
const maxIdChars = 256;

/** Gathers the tool calls of one answer. */
export class CallCollector {
  readonly calls: MessageToolCall[] = [];
  /** Data that Gemini expects back with the calls. */
  signature: ThinkingBlock | undefined;
  readonly #wire: Wire;
  readonly #bound: AnswerBound;
  /** Calls of which arguments come: how many have come, and the first of them. */
  readonly #unfinished = new Map<string, { name: string; size: number; beginning: string }>();
  #begun = 0;

  constructor(wire: Wire, bound: AnswerBound) {
    this.#wire = wire;
    this.#bound = bound;
  }

  /** Throws where there are more calls than any model makes. */
  add(part: CallPart): void {
    switch (part.type) {
      case "tool-input-start":
        if (++this.#begun > maxToolCalls) throw tooMany();
        if (!part.providerExecuted)
          this.#unfinished.set(part.id, { name: part.toolName, size: 0, beginning: "" });
        return;
      case "tool-input-delta": {
        this.#bound.take(part.delta);
        const call = this.#unfinished.get(part.id);
        if (!call) return;
        call.size += part.delta.length;
        if (call.beginning.length < keptOfCut) call.beginning += part.delta.slice(0, keptOfCut);
        return;
      }
      case "tool-call":
        if (!part.providerExecuted) this.#addWhole(part);
    }
  }

  /** Takes the calls that have not come whole as they are: nothing more is read of the answer. */
  cut(): void {
    for (const [id, { name, beginning }] of this.#unfinished) this.#push(id, name, beginning);
  }

  #addWhole(part: Extract<CallPart, { type: "tool-call" }>): void {
    const { toolCallId: id, toolName: name, input } = part;
    if (this.calls.length >= maxToolCalls) throw tooMany();
    const rest = input.slice(this.#unfinished.get(id)?.size ?? 0);
    this.#unfinished.delete(id);
    const isWhole = this.#bound.take(rest).length === rest.length;
    const itemId = part.providerMetadata?.openai?.itemId;
    this.#push(
      id,
      name,
      isWhole ? input : input.slice(0, keptOfCut),
      typeof itemId === "string" ? itemId : undefined,
    );
    this.signature ??= signatureBlock(part.providerMetadata);
  }

  #push(id: string, name: string, input: string, itemId?: string): void {
    this.calls.push({
      id: id.length > maxIdChars ? "" : id,
      name: name.slice(0, maxNameChars),
      arguments: input,
      origin: this.#wire === "responses" ? "responses" : "completion",
      ...(itemId !== undefined && itemId.length <= maxIdChars && { responses_item_id: itemId }),
    });
  }
}

function tooMany(): Error {
  return new Error(`the endpoint sent more than ${maxToolCalls} tool calls`);
}
