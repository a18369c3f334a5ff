import { contentText } from "@sandpiper/wire";
import type { ModelMessage } from "../model.ts";

/** A tool call of the demo's and what came back. */
export interface Done {
  tool: string;
  arguments: Record<string, unknown>;
  /** What the model reads of the result. */
  text: string;
  isError: boolean;
}

export interface History {
  /** The newest request of the user's. */
  task: string;
  done: Done[];
}

/**
 * Reads the calls that belong to the newest task: a user message after a finish (or after a closing text) begins a new one.
 * Calls without a result are left out, as their answer is not known yet.
 */
export function readHistory(messages: readonly ModelMessage[]): History {
  let history: History = { task: "", done: [] };
  let isOver = true;
  const open = new Map<string, Omit<Done, "text" | "isError">>();
  for (const message of messages) {
    if (message.role === "user") {
      if (isOver) history = { task: contentText(message.content), done: [] };
      isOver = false;
    } else if (message.role === "assistant") {
      if (message.toolCalls.length === 0) isOver = true;
      for (const call of message.toolCalls) open.set(call.id, { tool: call.name, arguments: parse(call.arguments) });
    } else {
      const call = open.get(message.toolCallId);
      if (!call) continue;
      open.delete(message.toolCallId);
      if (call.tool === "finish" && !message.isError) isOver = true;
      history.done.push({ ...call, text: contentText(message.content), isError: message.isError });
    }
  }
  return history;
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
