import type { Answer, Dialect } from "./model-answer.ts";
import { bedrockEvents } from "./model-wire-bedrock.ts";
import { argumentsText, callId, data, pieces, usageOf } from "./model-wire-parts.ts";
import type { Wire } from "./model-wire-requests.ts";
import { responsesEvents } from "./model-wire-responses.ts";

/**
 * Writes a scripted answer as the events of a wire: server-sent ones, each with its blank line, or
 * Bedrock's binary frames.
 */
export function eventsOf(wire: Wire, answer: Answer, index: number, dialect?: Dialect): (string | Buffer)[] {
  if (wire === "openai") return openAiEvents(answer, index, dialect);
  const writers = {
    responses: responsesEvents,
    anthropic: anthropicEvents,
    google: googleEvents,
    bedrock: bedrockEvents,
  };
  return writers[wire](answer, index);
}

/** Chat completions of OpenAI, or of a provider with the same protocol. */
function openAiEvents(answer: Answer, index: number, dialect?: Dialect): string[] {
  const frame = {
    id: answer.id ?? `chatcmpl-${index}`,
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "scripted",
  };
  const delta = (delta: object, finish_reason: string | null = null) =>
    data({ ...frame, choices: [{ index: 0, delta, finish_reason }] });
  const events = [
    ...(dialect === "openrouter" ? [": OPENROUTER PROCESSING\n\n"] : []),
    delta({ role: "assistant", content: "" }),
  ];
  const thought = dialect === "openrouter" || dialect === "vllm" ? "reasoning" : "reasoning_content";
  for (const piece of pieces(answer.thinking?.text ?? "", answer.deltaSize))
    events.push(delta({ [thought]: piece }));
  for (const reasoning_details of answer.reasoningDetails ?? []) events.push(delta({ reasoning_details }));
  for (const piece of pieces(answer.text ?? "", answer.deltaSize)) events.push(delta({ content: piece }));
  for (const piece of pieces(answer.refusal ?? "", answer.deltaSize)) events.push(delta({ refusal: piece }));
  answer.toolCalls?.forEach((call, position) => {
    if (dialect === "ollama") {
      // Ollama sends each call whole.
      const whole = { name: call.name, arguments: argumentsText(call) };
      events.push(
        delta({
          tool_calls: [
            { index: position, id: callId(call, index, position), type: "function", function: whole },
          ],
        }),
      );
      return;
    }
    const head = {
      index: position,
      id: callId(call, index, position),
      type: "function",
      function: { name: call.name, arguments: "" },
    };
    events.push(delta({ tool_calls: [head] }));
    for (const piece of pieces(argumentsText(call), answer.deltaSize)) {
      events.push(delta({ tool_calls: [{ index: position, function: { arguments: piece } }] }));
    }
  });
  if (answer.streamError) return [...events, data({ error: answer.streamError })];
  const usage = usageOf(answer);
  events.push(delta({}, answer.finish ?? (answer.toolCalls?.length ? "tool_calls" : "stop")));
  events.push(
    data({
      ...frame,
      choices: [],
      usage: {
        prompt_tokens: usage.prompt,
        completion_tokens: usage.completion,
        total_tokens: usage.prompt + usage.completion,
        prompt_tokens_details: { cached_tokens: usage.cacheRead },
        completion_tokens_details: { reasoning_tokens: usage.reasoning },
      },
    }),
  );
  return [...events, "data: [DONE]\n\n"];
}

function anthropicEvents(answer: Answer, index: number): string[] {
  const event = (value: { type: string; [key: string]: unknown }) => `event: ${value.type}\n${data(value)}`;
  const usage = usageOf(answer);
  const message = {
    id: answer.id ?? `msg_${index}`,
    type: "message",
    role: "assistant",
    model: "scripted",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: {
      input_tokens: usage.prompt - usage.cacheRead - usage.cacheWrite,
      cache_read_input_tokens: usage.cacheRead,
      cache_creation_input_tokens: usage.cacheWrite,
      output_tokens: 1,
    },
  };
  const events = [event({ type: "message_start", message })];
  let block = 0;
  const addBlock = (content_block: object, deltas: object[]) => {
    events.push(event({ type: "content_block_start", index: block, content_block }));
    for (const delta of deltas) events.push(event({ type: "content_block_delta", index: block, delta }));
    events.push(event({ type: "content_block_stop", index: block++ }));
  };
  if (answer.thinking) {
    const thoughts: object[] = pieces(answer.thinking.text, answer.deltaSize).map((thinking) => ({
      type: "thinking_delta",
      thinking,
    }));
    if (answer.thinking.signature)
      thoughts.push({ type: "signature_delta", signature: answer.thinking.signature });
    addBlock({ type: "thinking", thinking: "" }, thoughts);
  }
  if (answer.redactedThinking) addBlock({ type: "redacted_thinking", data: answer.redactedThinking }, []);
  const said = answer.refusal ?? answer.text;
  if (said) {
    addBlock(
      { type: "text", text: "" },
      pieces(said, answer.deltaSize).map((text) => ({ type: "text_delta", text })),
    );
  }
  answer.toolCalls?.forEach((call, position) => {
    const deltas = pieces(argumentsText(call), answer.deltaSize).map((partial_json) => ({
      type: "input_json_delta",
      partial_json,
    }));
    addBlock({ type: "tool_use", id: callId(call, index, position), name: call.name, input: {} }, deltas);
  });
  if (answer.streamError) {
    const { message, type = "api_error" } = answer.streamError;
    return [...events, event({ type: "error", error: { type, message } })];
  }
  const reasons = {
    stop: "end_turn",
    tool_calls: "tool_use",
    length: "max_tokens",
    content_filter: "refusal",
  };
  const stop_reason = answer.refusal
    ? "refusal"
    : reasons[answer.finish ?? (answer.toolCalls?.length ? "tool_calls" : "stop")];
  events.push(
    event({
      type: "message_delta",
      delta: { stop_reason, stop_sequence: null },
      usage: { output_tokens: usage.completion },
    }),
    event({ type: "message_stop" }),
  );
  return events;
}

/** Gemini sends a function call whole; arguments given as text are sent as text. */
function googleEvents(answer: Answer, index: number): string[] {
  const frame = { responseId: answer.id ?? `gemini-${index}`, modelVersion: "scripted" };
  const part = (part: object) =>
    data({ ...frame, candidates: [{ index: 0, content: { role: "model", parts: [part] } }] });
  const events: string[] = [];
  for (const text of pieces(answer.thinking?.text ?? "", answer.deltaSize))
    events.push(part({ text, thought: true }));
  for (const text of pieces(answer.refusal ?? answer.text ?? "", answer.deltaSize))
    events.push(part({ text }));
  answer.toolCalls?.forEach((call, position) => {
    const functionCall = { id: callId(call, index, position), name: call.name, args: call.arguments };
    events.push(
      part({ functionCall, ...(call.thoughtSignature && { thoughtSignature: call.thoughtSignature }) }),
    );
  });
  if (answer.streamError) {
    const { message, code = 500, type = "INTERNAL" } = answer.streamError;
    return [...events, data({ error: { code, message, status: type } })];
  }
  const usage = usageOf(answer);
  const reasons = { stop: "STOP", tool_calls: "STOP", length: "MAX_TOKENS", content_filter: "SAFETY" };
  events.push(
    data({
      ...frame,
      candidates: [
        {
          index: 0,
          content: { role: "model", parts: [] },
          finishReason: reasons[answer.refusal ? "content_filter" : (answer.finish ?? "stop")],
        },
      ],
      usageMetadata: {
        promptTokenCount: usage.prompt,
        candidatesTokenCount: usage.completion - usage.reasoning,
        thoughtsTokenCount: usage.reasoning,
        cachedContentTokenCount: usage.cacheRead,
        totalTokenCount: usage.prompt + usage.completion,
      },
    }),
  );
  return events;
}
