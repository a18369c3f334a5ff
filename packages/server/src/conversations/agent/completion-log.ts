import { maskDeep, type OutputMask } from "@sandpiper/agent/masking/output-mask";
import type { Model, ModelMessage, ModelRequest, ModelResponse } from "@sandpiper/models/model";
import { contentText, newId } from "@sandpiper/wire";

/** Maximum length of the system prompt, of the messages, and of the tools with the answer. */
const maxPart = 250_000;

export interface CompletionLog {
  mask: OutputMask;
  /** Whether the conversation has a follower. */
  isFollowed(): boolean;
  publish(event: Record<string, unknown>): void;
}

/**
 * Publishes an LLMCompletionLogEvent for each answer of a model, which clients write into a file
 * (events.md section 2). It is masked, bounded, and not stored.
 */
export function logCompletions(model: Model, { mask, isFollowed, publish }: CompletionLog): Model {
  return {
    name: model.name,
    contextWindow: model.contextWindow,
    async complete(request) {
      const startedAt = Date.now();
      const response = await model.complete(request);
      if (!isFollowed()) return response;
      const at = Date.now();
      const data = {
        ...describe(request, response),
        timestamp: at / 1_000,
        latency_sec: (at - startedAt) / 1_000,
      };
      publish({
        kind: "LLMCompletionLogEvent",
        source: "environment",
        filename: toFileName(model.name, at),
        log_data: JSON.stringify(maskDeep(data, mask)),
        model_name: model.name,
        usage_id: request.usageId ?? "default",
      });
      return response;
    },
  };
}

/** A name without folders, whatever the model is called. */
function toFileName(model: string, at: number): string {
  const name = model
    .replaceAll("/", "__")
    .replaceAll(/[^\w.-]/g, "_")
    .slice(0, 100);
  return `${name}-${(at / 1_000).toFixed(3)}-${newId().slice(0, 4)}.json`;
}

/** The call in the form of chat completions; of a long history, the end. */
function describe(
  { system, messages, tools }: ModelRequest,
  response: ModelResponse,
): Record<string, unknown> {
  const kept: unknown[] = [];
  let length = 0;
  for (const message of messages.toReversed()) {
    const shown = describeMessage(message);
    length += JSON.stringify(shown).length;
    if (length > maxPart) break;
    kept.unshift(shown);
  }
  const omitted = messages.length - kept.length;
  const { id, finishReason, usage, cost } = response;
  const answer = {
    id,
    choices: [
      { index: 0, message: describeMessage({ role: "assistant", ...response }), finish_reason: finishReason },
    ],
    usage,
  };
  const rest = { tools: tools.map((tool) => ({ type: "function", function: tool })), response: answer };
  const isLong = JSON.stringify(rest).length > maxPart;
  return {
    messages: [{ role: "system", content: system.join("\n\n").slice(0, maxPart) }, ...kept],
    ...(omitted > 0 && { omitted_messages: omitted }),
    ...(isLong ? { response: { id, usage } } : rest),
    cost,
  };
}

function describeMessage(message: ModelMessage): Record<string, unknown> {
  if (message.role === "user") return { role: "user", content: contentText(message.content) };
  if (message.role === "tool")
    return { role: "tool", tool_call_id: message.toolCallId, content: contentText(message.content) };
  const { text, reasoning, toolCalls } = message;
  return {
    role: "assistant",
    content: text,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map(({ id, name, arguments: given }) => ({
        id,
        type: "function",
        function: { name, arguments: given },
      })),
    }),
  };
}
