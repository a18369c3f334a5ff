import type { ModelMessage } from "@sandpiper/models/model";
import type { ActionEvent, MessageEvent } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";

export type AssistantMessage = Extract<ModelMessage, { role: "assistant" }>;

/** Follows an answer at the end of a prompt. */
export const continueMessage: ModelMessage = {
  role: "user",
  content: [textContent("Go on with the latest message of the user.")],
};

export function toModelMessage(event: MessageEvent): ModelMessage {
  const {
    role,
    content,
    reasoning_content,
    thinking_blocks,
    responses_reasoning_item: item,
  } = event.llm_message;
  if (role !== "assistant") return { role: "user", content: [...content, ...event.extended_content] };
  return {
    role,
    text: content.map((part) => (part.type === "text" ? part.text : "")).join(""),
    reasoning: reasoning_content,
    thinkingBlocks: thinking_blocks ?? [],
    ...(item && { reasoningItems: [{ callsBefore: 0, item }] }),
    toolCalls: [],
  };
}

/** The assistant message of an action event, without calls. */
export function toAssistantMessage(event: ActionEvent): AssistantMessage {
  return {
    role: "assistant",
    text: event.thought.map((part) => part.text).join("\n"),
    reasoning: event.reasoning_content,
    thinkingBlocks: event.thinking_blocks,
    toolCalls: [],
  };
}

export function summaryMessage(summary: string): ModelMessage {
  const text = `<CONVERSATION_SUMMARY>\nEarlier parts of this conversation were summarised:\n${summary}\n</CONVERSATION_SUMMARY>`;
  return { role: "user", content: [textContent(text)] };
}

/** Marks messages that were dropped without a summary. */
export function dropNote(): ModelMessage {
  const text =
    "[Many messages that came here are left out: the conversation is longer than any model reads.]";
  return { role: "user", content: [textContent(text)] };
}
