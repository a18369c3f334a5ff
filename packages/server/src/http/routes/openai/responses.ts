import { PlatformError } from "@sandpiper/core/errors";
import { type AgentResponse, type ChatMessage, hexId, newId, type ResponseRequest } from "@sandpiper/wire";
import { openAiFailure } from "../../server/errors.ts";
import type { Answer, Turn } from "./turn.ts";

/** Maximum silence of a stream, ms. */
const beatMs = 15_000;

/** The messages of a request in the form of chat completions. */
export function toMessages({ input, instructions }: ResponseRequest): ChatMessage[] {
  const given: ChatMessage[] =
    typeof input === "string"
      ? [{ role: "user", content: input }]
      : input.flatMap(({ type, role, content }) =>
          role && (type ?? "message") === "message" ? [{ role, content: toParts(content) }] : [],
        );
  return instructions ? [{ role: "system", content: instructions }, ...given] : given;
}

type InputContent = Exclude<ResponseRequest["input"], string>[number]["content"];

function toParts(content: InputContent): ChatMessage["content"] {
  if (!Array.isArray(content)) return content;
  return content.map(({ type, text, image_url }) => {
    if (type === "input_text" || type === "output_text") return { type: "text", text };
    return type === "input_image" ? { type: "image_url", image_url } : { type };
  });
}

/** The id of a response, from which `findConversation` reads the conversation. */
export function makeResponseId(conversationId: string): string {
  return `resp_${hexId(conversationId)}${hexId(newId())}`;
}

/** The id in the id of a response; undefined when that is malformed. */
export function parseResponseId(responseId: string): string | undefined {
  return /^resp_([0-9a-f]{32})[0-9a-f]{32}$/.exec(responseId)?.[1];
}

/** The conversation of an earlier response. Throws ConversationNotFound. */
export function findConversation(responseId: string): string {
  const id = parseResponseId(responseId);
  if (id === undefined) throw new PlatformError("ConversationUnknown");
  return id;
}

/** A response that has begun. */
export function beginResponse(id: string, request: ResponseRequest): AgentResponse {
  return {
    ...{ id, object: "response", status: "in_progress", created_at: Math.floor(Date.now() / 1_000) },
    completed_at: null,
    model: request.model,
    instructions: request.instructions ?? null,
    metadata: request.metadata ?? null,
    previous_response_id: request.previous_response_id ?? null,
    output: [],
    ...{ parallel_tool_calls: false, tool_choice: "none", tools: [], usage: null },
  };
}

type Message = AgentResponse["output"][number];

/** The finished response; `text` replaces that of the answer. */
export function endResponse(begun: AgentResponse, { text, usage }: Answer, message = makeMessage(text)) {
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  return {
    ...begun,
    status: "completed",
    completed_at: Math.floor(Date.now() / 1_000),
    output: [message],
    usage: {
      input_tokens: prompt_tokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: completion_tokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens,
    },
  } satisfies AgentResponse;
}

function makeMessage(text: string, id = `msg_${hexId(newId())}`): Message {
  return {
    ...{ type: "message", id, role: "assistant", status: "completed" },
    content: [{ type: "output_text", text, annotations: [] }],
  };
}

/**
 * Streams a turn as the events of a response with one message, which has all that the agent says
 * during the turn. Comments fill silence; a failed turn ends in an `error` event.
 */
export async function* streamEvents(turn: Turn, begun: AgentResponse): AsyncGenerator<string> {
  let number = 0;
  const event = (type: string, more: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...more })}\n\n`;
  const { id } = makeMessage("");
  const place = { item_id: id, output_index: 0, content_index: 0 };
  yield event("response.created", { response: begun });
  yield event("response.in_progress", { response: begun });
  const item = { ...makeMessage("", id), status: "in_progress", content: [] };
  yield event("response.output_item.added", { output_index: 0, item });
  yield event("response.content_part.added", { ...place, part: makeMessage("").content[0] });
  let text = "";
  for await (const piece of turn.deltas(beatMs)) {
    if (!piece) yield ": the agent works\n\n";
    if (!piece?.content) continue;
    text += piece.content;
    yield event("response.output_text.delta", { ...place, delta: piece.content, logprobs: [] });
  }
  try {
    const answer = await turn.answer();
    const message = makeMessage(text, id);
    yield event("response.output_text.done", { ...place, text, logprobs: [] });
    yield event("response.content_part.done", { ...place, part: message.content[0] });
    yield event("response.output_item.done", { output_index: 0, item: message });
    yield event("response.completed", { response: endResponse(begun, answer, message) });
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error;
    const { status, message, code } = error;
    const { type: _, ...failure } = openAiFailure({ status, text: message, code }).error;
    yield event("error", failure);
  }
}
