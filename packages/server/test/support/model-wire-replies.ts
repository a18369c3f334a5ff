import type { Answer, ScriptedToolCall, Usage } from "./model-server.ts";
import type { Wire } from "./model-wire-requests.ts";

/** Writes a scripted answer as the server-sent events of a wire, each with its blank line. */
export function eventsOf(wire: Wire, answer: Answer, index: number): string[] {
  return { openai: openAiEvents, anthropic: anthropicEvents, google: googleEvents }[wire](answer, index);
}

const defaultUsage: Usage = { prompt: 100, completion: 20, cacheRead: 0, cacheWrite: 0, reasoning: 0 };

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

/** Pieces of a text, by characters and without splitting a surrogate pair. */
function pieces(text: string, size = 12): string[] {
  const characters = [...text];
  return Array.from({ length: Math.ceil(characters.length / size) }, (_, at) =>
    characters.slice(at * size, (at + 1) * size).join(""),
  );
}

const argumentsText = (call: ScriptedToolCall) =>
  typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);

const callId = (call: ScriptedToolCall, index: number, position: number) => call.id ?? `call_${index}_${position}`;

function openAiEvents(answer: Answer, index: number): string[] {
  const frame = {
    id: answer.id ?? `chatcmpl-${index}`,
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "scripted",
  };
  const delta = (delta: object, finish_reason: string | null = null) =>
    data({ ...frame, choices: [{ index: 0, delta, finish_reason }] });
  const events = [delta({ role: "assistant", content: "" })];
  for (const piece of pieces(answer.thinking?.text ?? "", answer.deltaSize)) events.push(delta({ reasoning_content: piece }));
  for (const piece of pieces(answer.text ?? "", answer.deltaSize)) events.push(delta({ content: piece }));
  answer.toolCalls?.forEach((call, position) => {
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
  const usage = { ...defaultUsage, ...answer.usage };
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
  const usage = { ...defaultUsage, ...answer.usage };
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
    if (answer.thinking.signature) thoughts.push({ type: "signature_delta", signature: answer.thinking.signature });
    addBlock({ type: "thinking", thinking: "" }, thoughts);
  }
  if (answer.redactedThinking) addBlock({ type: "redacted_thinking", data: answer.redactedThinking }, []);
  if (answer.text) {
    addBlock(
      { type: "text", text: "" },
      pieces(answer.text, answer.deltaSize).map((text) => ({ type: "text_delta", text })),
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
  const reasons = { stop: "end_turn", tool_calls: "tool_use", length: "max_tokens", content_filter: "refusal" };
  const stop_reason = reasons[answer.finish ?? (answer.toolCalls?.length ? "tool_calls" : "stop")];
  events.push(
    event({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: usage.completion } }),
    event({ type: "message_stop" }),
  );
  return events;
}

/** Gemini sends a function call whole; arguments given as text are sent as text. */
function googleEvents(answer: Answer, index: number): string[] {
  const frame = { responseId: answer.id ?? `gemini-${index}`, modelVersion: "scripted" };
  const part = (part: object) => data({ ...frame, candidates: [{ index: 0, content: { role: "model", parts: [part] } }] });
  const events: string[] = [];
  for (const text of pieces(answer.thinking?.text ?? "", answer.deltaSize)) events.push(part({ text, thought: true }));
  for (const text of pieces(answer.text ?? "", answer.deltaSize)) events.push(part({ text }));
  answer.toolCalls?.forEach((call, position) => {
    const functionCall = { id: callId(call, index, position), name: call.name, args: call.arguments };
    events.push(part({ functionCall, ...(call.thoughtSignature && { thoughtSignature: call.thoughtSignature }) }));
  });
  if (answer.streamError) {
    const { message, code = 500, type = "INTERNAL" } = answer.streamError;
    return [...events, data({ error: { code, message, status: type } })];
  }
  const usage = { ...defaultUsage, ...answer.usage };
  const reasons = { stop: "STOP", tool_calls: "STOP", length: "MAX_TOKENS", content_filter: "SAFETY" };
  events.push(
    data({
      ...frame,
      candidates: [{ index: 0, content: { role: "model", parts: [] }, finishReason: reasons[answer.finish ?? "stop"] }],
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
