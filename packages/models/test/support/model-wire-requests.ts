import { readBedrock } from "./model-wire-bedrock.ts";
import { empty, partsText, type SeenMessage } from "./model-wire-parts.ts";
import { readResponses } from "./model-wire-responses.ts";

/** Reads what a client of one of the wires sent into one shape, for the scripted model server. */

export type Wire = "openai" | "responses" | "anthropic" | "google" | "bedrock";

/** The wire that a request path belongs to. */
export function wireOf(path: string): Wire | undefined {
  if (/\/chat\/completions(\?|$)/.test(path)) return "openai";
  if (/\/responses(\?|$)/.test(path)) return "responses";
  if (/\/model\/[^/]+\/converse-stream$/.test(path)) return "bedrock";
  if (/\/messages(\?|$)/.test(path)) return "anthropic";
  if (/:streamGenerateContent/.test(path)) return "google";
  return undefined;
}

type Json = any;

export function readRequest(
  wire: Wire,
  body: Json,
): { system: string; messages: SeenMessage[]; tools: string[] } {
  const readers = {
    openai: readOpenAi,
    responses: readResponses,
    anthropic: readAnthropic,
    google: readGoogle,
    bedrock: readBedrock,
  };
  return readers[wire](body);
}

function readOpenAi(body: Json) {
  const isSystem = (message: Json) => message.role === "system" || message.role === "developer";
  return {
    system: body.messages
      .filter(isSystem)
      .map((message: Json) => partsText(message.content))
      .join("\n\n"),
    messages: body.messages
      .filter((message: Json) => !isSystem(message))
      .map(
        (message: Json): SeenMessage => ({
          ...empty(message.role),
          text: partsText(message.content),
          images: countParts(message.content, "image_url"),
          toolCalls: (message.tool_calls ?? []).map((call: Json) => ({ id: call.id, ...call.function })),
          ...(message.tool_call_id && { toolCallId: message.tool_call_id }),
          thinking: message.reasoning_content ? [{ text: message.reasoning_content }] : [],
        }),
      ),
    tools: (body.tools ?? []).map((tool: Json) => tool.function.name),
  };
}

function readAnthropic(body: Json) {
  const messages: SeenMessage[] = [];
  for (const { role, content } of body.messages) {
    const parts: Json[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    for (const part of parts.filter((part) => part.type === "tool_result")) {
      messages.push({
        ...empty("tool"),
        text: partsText(part.content),
        images: countParts(part.content, "image"),
        toolCallId: part.tool_use_id,
        isError: part.is_error === true,
      });
    }
    const rest = parts.filter((part) => part.type !== "tool_result");
    if (rest.length === 0) continue;
    messages.push({
      ...empty(role),
      text: partsText(rest),
      images: countParts(rest, "image"),
      toolCalls: rest
        .filter((part) => part.type === "tool_use")
        .map(({ id, name, input }) => ({ id, name, arguments: input })),
      thinking: rest
        .filter((part) => /thinking$/.test(part.type))
        .map((part) => ({ text: part.thinking ?? "", signature: part.signature ?? part.data })),
    });
  }
  return {
    system:
      typeof body.system === "string"
        ? body.system
        : (body.system ?? []).map((part: Json) => part.text).join("\n\n"),
    messages,
    tools: (body.tools ?? []).map((tool: Json) => tool.name),
  };
}

function readGoogle(body: Json) {
  const messages: SeenMessage[] = [];
  for (const { role, parts } of body.contents as { role: string; parts: Json[] }[]) {
    for (const { functionResponse } of parts.filter((part) => part.functionResponse)) {
      const { response, parts: files = [] } = functionResponse;
      messages.push({
        ...empty("tool"),
        text: String(response.error ?? response.content),
        images: files.length,
        toolCallId: functionResponse.id,
        isError: "error" in response,
      });
    }
    const rest = parts.filter((part) => !part.functionResponse);
    if (rest.length === 0) continue;
    messages.push({
      ...empty(role === "model" ? "assistant" : "user"),
      text: rest.flatMap((part) => (part.text && !part.thought ? [part.text] : [])).join("\n"),
      images: rest.filter((part) => part.inlineData || part.fileData).length,
      toolCalls: rest
        .filter((part) => part.functionCall)
        .map(({ functionCall }) => ({
          id: functionCall.id,
          name: functionCall.name,
          arguments: functionCall.args,
        })),
      thinking: rest
        .filter((part) => part.thoughtSignature)
        .map((part) => ({ text: part.text ?? "", signature: part.thoughtSignature })),
    });
  }
  return {
    system: (body.systemInstruction?.parts ?? []).map((part: Json) => part.text).join("\n\n"),
    messages,
    tools: (body.tools ?? []).flatMap((tool: Json) =>
      (tool.functionDeclarations ?? []).map((declared: Json) => declared.name),
    ),
  };
}

function countParts(content: Json, type: string): number {
  return Array.isArray(content) ? content.filter((part) => part.type === type).length : 0;
}
