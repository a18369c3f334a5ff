import type { Content, MessageToolCall } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { toArgumentsObject } from "../call-arguments.ts";
import type { ModelMessage } from "../model.ts";
import { callEnd } from "./instructions.ts";

/** The conversation with calls and results written as text. */
export function toTextHistory(messages: readonly ModelMessage[]): ModelMessage[] {
  return messages.map((message): ModelMessage => {
    if (message.role === "tool")
      return { role: "user", content: resultOf(message.toolName, message.content, message.isError) };
    if (message.role === "user") return message;
    const parts = [message.text, ...message.toolCalls.map(writeCall)];
    return { ...message, text: parts.filter((part) => part !== "").join("\n\n"), toolCalls: [] };
  });
}

function writeCall({ name, arguments: text }: MessageToolCall): string {
  const parameters = Object.entries(toArgumentsObject(text)).map(
    ([key, value]) =>
      `<parameter=${key}>\n${typeof value === "string" ? value : JSON.stringify(value)}\n</parameter>`,
  );
  return [`<function=${name}>`, ...parameters, callEnd].join("\n");
}

function resultOf(toolName: string, content: readonly Content[], isError: boolean): Content[] {
  const head = `${isError ? "ERROR" : "RESULT"} of ${toolName}:`;
  const [first, ...rest] = content;
  return first?.type === "text"
    ? [{ ...first, text: `${head}\n${first.text}` }, ...rest]
    : [textContent(head), ...content];
}
