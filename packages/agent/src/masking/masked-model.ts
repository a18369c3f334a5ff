import type {
  Model,
  ModelMessage,
  ModelRequest,
  ModelResponse,
  PlacedReasoning,
} from "@sandpiper/models/model";
import type { Content, ThinkingBlock } from "@sandpiper/wire";
import { toolRegistry } from "../tools/registry.ts";
import { maskDeep, noMask, type OutputMask } from "./output-mask.ts";

/** Masks a model's input and output, streamed too. Tool results are masked when stored. */
export function maskModel(model: Model, mask: OutputMask): Model {
  if (mask === noMask) return model;
  const prompt = new MaskedPrompt(mask);
  return {
    name: model.name,
    contextWindow: model.contextWindow,
    async complete(request) {
      const { onDelta } = request;
      const content = mask.stream();
      const reasoning = mask.stream();
      const emit = (delta: { content?: string; reasoning?: string }) => {
        if (delta.content || delta.reasoning) onDelta?.(delta);
      };
      const response = await model.complete({
        ...request,
        system: request.system.map((text) => prompt.text(text)),
        messages: request.messages.map((message) => prompt.message(message)),
        ...(onDelta && {
          onDelta: (delta) =>
            emit({
              ...(delta.content && { content: content.write(delta.content) }),
              ...(delta.reasoning && { reasoning: reasoning.write(delta.reasoning) }),
            }),
        }),
      } satisfies ModelRequest);
      emit({ content: content.end(), reasoning: reasoning.end() });
      return maskAnswer(response, mask);
    },
  };
}

/** Masks each text of a prompt once: prompts repeat their history. */
class MaskedPrompt {
  readonly #mask: OutputMask;
  readonly #messages = new WeakMap<ModelMessage, ModelMessage>();
  #texts = new Map<string, string>();

  constructor(mask: OutputMask) {
    this.#mask = mask;
  }

  text(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (this.#texts.size >= 20) this.#texts.clear();
    const shown = this.#mask.text(text);
    this.#texts.set(text, shown);
    return shown;
  }

  message(message: ModelMessage): ModelMessage {
    if (message.role !== "user") return message;
    let shown = this.#messages.get(message);
    if (!shown) {
      shown = { ...message, content: message.content.map((part) => this.#part(part)) };
      this.#messages.set(message, shown);
    }
    return shown;
  }

  #part(part: Content): Content {
    return part.type === "text" ? { ...part, text: this.#mask.text(part.text) } : part;
  }
}

/** Masks an answer. Signed text stays: the provider would refuse a changed one. */
export function maskAnswer(response: ModelResponse, mask: OutputMask): ModelResponse {
  if (mask === noMask) return response;
  return {
    ...response,
    id: mask.text(response.id),
    text: mask.text(response.text),
    ...(response.reasoning && { reasoning: mask.text(response.reasoning) }),
    thinkingBlocks: response.thinkingBlocks.flatMap((block) => maskBlock(block, mask)),
    ...(response.reasoningItems && {
      reasoningItems: response.reasoningItems.map((placed) => maskThought(placed, mask)),
    }),
    ...(response.problem && { problem: mask.text(response.problem) }),
    toolCalls: response.toolCalls.map((call) => ({
      ...call,
      id: mask.text(call.id),
      name: mask.text(call.name),
      // Other tools run with the original arguments.
      ...(toolRegistry.roleOf(call.name) && { arguments: maskJson(call.arguments, mask) }),
    })),
  };
}

/** Drops redacted blocks with a secret: providers accept them only unchanged. */
function maskBlock(block: ThinkingBlock, mask: OutputMask): ThinkingBlock[] {
  if (block.type === "redacted_thinking") return mask.text(block.data) === block.data ? [block] : [];
  return [block.signature ? block : { ...block, thinking: mask.text(block.thinking) }];
}

/** The encrypted form stays: only its provider reads it. */
function maskThought({ callsBefore, item }: PlacedReasoning, mask: OutputMask): PlacedReasoning {
  return { callsBefore, item: { ...item, summary: item.summary.map((text) => mask.text(text)) } };
}

function maskJson(json: string, mask: OutputMask): string {
  if (mask.text(json) === json) return json;
  try {
    return JSON.stringify(maskDeep(JSON.parse(json), mask));
  } catch {
    return mask.text(json);
  }
}
