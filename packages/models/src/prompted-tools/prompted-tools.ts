import type { Look, Model, ModelRequest, ModelResponse } from "../model.ts";
import type { ProviderModel } from "../provider-model.ts";
import { toTextHistory } from "./history.ts";
import { callEnd, formatToolInstructions } from "./instructions.ts";
import { parseCalls } from "./parse-calls.ts";

/**
 * Wraps a model whose endpoint does not support tools: the prompt describes them, and calls are
 * parsed from the text.
 */
export class PromptedTools implements Model {
  readonly name: string;
  readonly contextWindow: number;
  readonly #model: ProviderModel;
  readonly #stops: boolean;

  constructor(model: ProviderModel, { stops = true }: { stops?: boolean } = {}) {
    this.name = model.name;
    this.contextWindow = model.contextWindow;
    this.#model = model;
    this.#stops = stops;
  }

  look(signal: AbortSignal): Promise<Look> {
    return this.#model.look(signal);
  }

  async complete(request: ModelRequest): Promise<ModelResponse> {
    const { tools, onDelta } = request;
    const messages = toTextHistory(request.messages);
    if (tools.length === 0) return this.#model.complete({ ...request, messages });
    const response = await this.#model.complete({
      ...request,
      system: [...request.system, formatToolInstructions(tools)],
      messages,
      tools: [],
      ...(this.#stops && { stop: [callEnd] }),
      ...(onDelta && { onDelta: withoutCalls(onDelta) }),
    });
    const { text, toolCalls, problem } = parseCalls(response.text, tools);
    return {
      ...response,
      text,
      toolCalls,
      ...(problem && { problem: `Your last answer holds a tool call that cannot be read: ${problem}.` }),
      ...(toolCalls.length > 0 &&
        response.finishReason === "stop" && { finishReason: "tool-calls" as const }),
    };
  }
}

/** Streams text up to the first call; a possible beginning of a call waits for the next text. */
function withoutCalls(onDelta: NonNullable<ModelRequest["onDelta"]>): NonNullable<ModelRequest["onDelta"]> {
  const opening = "<function=";
  let held = "";
  let isCall = false;
  return ({ content, reasoning }) => {
    if (reasoning) onDelta({ reasoning });
    if (!content || isCall) return;
    held += content;
    const start = held.indexOf(opening);
    isCall = start >= 0;
    const safe = isCall ? start : held.length - partialEnd(held, opening);
    if (safe > 0) onDelta({ content: held.slice(0, safe) });
    held = isCall ? "" : held.slice(safe);
  };
}

/** How many characters at the end of a text may begin a word. */
function partialEnd(text: string, word: string): number {
  for (let length = Math.min(text.length, word.length - 1); length > 0; length--) {
    if (text.endsWith(word.slice(0, length))) return length;
  }
  return 0;
}
