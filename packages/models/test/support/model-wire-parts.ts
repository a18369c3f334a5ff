import type { Answer, ScriptedToolCall, Usage } from "./model-answer.ts";

/** Shared parts of the scripted model server's wires. */

const defaultUsage: Usage = { prompt: 100, completion: 20, cacheRead: 0, cacheWrite: 0, reasoning: 0 };

export const usageOf = (answer: Answer): Usage => ({ ...defaultUsage, ...answer.usage });

export const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

/**
 * Pieces of a text, by characters and without splitting a surrogate pair: of 12 characters, larger
 * ones where they would be more than some hundred.
 */
export function pieces(text: string, size = Math.max(12, Math.ceil(text.length / 100))): string[] {
  if (size >= text.length) return text === "" ? [] : [text];
  const characters = [...text];
  return Array.from({ length: Math.ceil(characters.length / size) }, (_, at) =>
    characters.slice(at * size, (at + 1) * size).join(""),
  );
}

export const argumentsText = (call: ScriptedToolCall) =>
  typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);

export const callId = (call: ScriptedToolCall, index: number, position: number) =>
  call.id ?? `call_${index}_${position}`;

export interface SeenMessage {
  role: "user" | "assistant" | "tool";
  /** The texts of a message, joined by newlines; for a tool message its result. */
  text: string;
  images: number;
  toolCalls: { id: string; name: string; arguments: unknown }[];
  /** For a tool message. */
  toolCallId?: string;
  isError?: boolean;
  /** Thinking that was replayed: its texts and, by wire, signatures. */
  thinking: { text: string; signature?: string }[];
}

export const empty = (role: SeenMessage["role"]): SeenMessage => ({
  role,
  text: "",
  images: 0,
  toolCalls: [],
  thinking: [],
});

export function partsText(content: any): string {
  if (typeof content === "string") return content;
  return (content ?? []).flatMap((part: any) => (part.type === "text" ? [part.text] : [])).join("\n");
}
