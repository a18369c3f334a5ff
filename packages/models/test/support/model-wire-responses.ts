import type { Answer, Usage } from "./model-answer.ts";
import { argumentsText, callId, data, empty, pieces, type SeenMessage, usageOf } from "./model-wire-parts.ts";

/** OpenAI's responses, for the scripted model server. */

type Json = any;

export function readResponses(body: Json) {
  const messages: SeenMessage[] = [];
  const assistant = () => {
    const last = messages.at(-1);
    if (last?.role === "assistant") return last;
    const message = empty("assistant");
    messages.push(message);
    return message;
  };
  const isSystem = (item: Json) => item.role === "system" || item.role === "developer";
  for (const item of body.input.filter((item: Json) => !isSystem(item))) {
    if (item.type === "reasoning") {
      const text = item.summary.map((part: Json) => part.text).join("\n\n");
      assistant().thinking.push({ text, signature: item.encrypted_content });
    } else if (item.type === "function_call") {
      assistant().toolCalls.push({ id: item.call_id, name: item.name, arguments: item.arguments });
    } else if (item.type === "function_call_output") {
      const parts =
        typeof item.output === "string" ? [{ type: "input_text", text: item.output }] : item.output;
      messages.push({ ...empty("tool"), ...readParts(parts), toolCallId: item.call_id });
    } else if (item.role === "assistant") {
      assistant().text += typeof item.content === "string" ? item.content : readParts(item.content).text;
    } else {
      messages.push({ ...empty("user"), ...readParts(item.content) });
    }
  }
  return {
    system: body.input
      .filter(isSystem)
      .map((item: Json) => item.content)
      .join("\n\n"),
    messages,
    tools: (body.tools ?? []).map((tool: Json) => tool.name),
  };
}

function readParts(parts: Json): { text: string; images: number } {
  return {
    text: parts.flatMap((part: Json) => (/_text$/.test(part.type) ? [part.text] : [])).join("\n"),
    images: parts.filter((part: Json) => part.type === "input_image").length,
  };
}

export function responsesEvents(answer: Answer, index: number): string[] {
  const id = answer.id ?? `resp_${index}`;
  const head = { id, object: "response", created_at: 1_700_000_000, model: "scripted", output: [] };
  let sequence = 0;
  const event = (type: string, fields: object) =>
    `event: ${type}\n${data({ type, sequence_number: sequence++, ...fields })}`;
  const events = [
    event("response.created", { response: { ...head, status: "in_progress" } }),
    event("response.in_progress", { response: { ...head, status: "in_progress" } }),
  ];
  let output = 0;
  const addItem = (item: Json, done: object, deltas: (place: object) => string[]) => {
    const place = { output_index: output++, item_id: item.id };
    events.push(event("response.output_item.added", { ...place, item: { status: "in_progress", ...item } }));
    events.push(...deltas(place));
    events.push(
      event("response.output_item.done", { ...place, item: { ...item, status: "completed", ...done } }),
    );
  };
  const addThought = ({ text, signature }: { text: string; signature?: string }) => {
    const texts = text === "" ? [] : text.split("\n\n");
    const item = { id: `rs_${index}_${output}`, type: "reasoning", summary: [] as object[] };
    const done = {
      summary: texts.map((text) => ({ type: "summary_text", text })),
      encrypted_content: signature ?? null,
    };
    addItem(item, done, (place) =>
      texts.flatMap((text, summary_index) => [
        event("response.reasoning_summary_part.added", {
          ...place,
          summary_index,
          part: { type: "summary_text", text: "" },
        }),
        ...pieces(text, answer.deltaSize).map((delta) =>
          event("response.reasoning_summary_text.delta", { ...place, summary_index, delta }),
        ),
        event("response.reasoning_summary_part.done", {
          ...place,
          summary_index,
          part: { type: "summary_text", text },
        }),
      ]),
    );
  };
  if (answer.thinking) addThought(answer.thinking);
  const said = answer.refusal ?? answer.text;
  if (said) {
    const kind = answer.refusal ? "refusal" : "output_text";
    const phase = answer.phase && { phase: answer.phase };
    addItem(
      { id: `msg_${index}`, type: "message", role: "assistant", content: [], ...phase },
      {},
      (place) => [
        ...pieces(said, answer.deltaSize).map((delta) =>
          event(`response.${kind}.delta`, { ...place, content_index: 0, delta }),
        ),
        event(`response.${kind}.done`, { ...place, content_index: 0, text: said, refusal: said }),
      ],
    );
  }
  answer.toolCalls?.forEach((call, position) => {
    if (call.thinking) addThought(call.thinking);
    const whole = argumentsText(call);
    const item = {
      id: `fc_${index}_${position}`,
      type: "function_call",
      call_id: callId(call, index, position),
      name: call.name,
    };
    addItem({ ...item, arguments: "" }, { arguments: whole }, (place) =>
      pieces(whole, answer.deltaSize).map((delta) =>
        event("response.function_call_arguments.delta", { ...place, delta }),
      ),
    );
  });
  if (answer.streamError) {
    const { message, code = "server_error" } = answer.streamError;
    return [...events, event("error", { code: String(code), message, param: null })];
  }
  const reason = { length: "max_output_tokens", content_filter: "content_filter" }[answer.finish as "length"];
  const end = reason ? "incomplete" : "completed";
  const response = {
    ...head,
    status: end,
    incomplete_details: reason ? { reason } : null,
    usage: responsesUsage(usageOf(answer)),
  };
  return [...events, event(`response.${end}`, { response })];
}

function responsesUsage(usage: Usage) {
  return {
    input_tokens: usage.prompt,
    input_tokens_details: {
      cached_tokens: usage.cacheRead,
      ...(usage.cacheWrite && { cache_write_tokens: usage.cacheWrite }),
    },
    output_tokens: usage.completion,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: usage.prompt + usage.completion,
  };
}
