import type { ActionEvent, MessageEvent, Observation } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";

/** Input of a hook (agent-behaviour.md section 9); only the fields of its event. */
export interface HookInput {
  tool_name?: string;
  tool_input?: unknown;
  tool_response?: unknown;
  message?: string;
}

/** Characters of a text in an event's field and in a tool's response. */
export const maxField = 50_000;

export function toolInput({ tool_name, action }: ActionEvent): HookInput {
  return { tool_name, tool_input: withoutKind(action ?? {}) };
}

export function toolResponse(event: ActionEvent, observation: Observation): HookInput {
  return { ...toolInput(event), tool_response: shortenTexts(withoutKind(observation), maxField) };
}

export function promptInput(message: MessageEvent): HookInput {
  return { message: contentText(message.llm_message.content) };
}

/** The input within the limit of an event's field: cuts long texts, then drops large fields. */
export function limitInput(input: HookInput): Record<string, unknown> {
  for (const most of [maxField, 2_000, 100]) {
    const shown = shortenTexts(input, most) as Record<string, unknown>;
    if (JSON.stringify(shown).length <= maxField) return shown;
  }
  return input.tool_name ? { tool_name: input.tool_name } : {};
}

/** Cuts a text and marks the cut. */
export function cut(text: string, most = maxField): string {
  const notice = "\n[The rest is left out.]";
  if (text.length <= most) return text;
  return `${text.slice(0, Math.max(0, most - notice.length))}${notice}`.slice(0, most);
}

function withoutKind<T extends object>(value: T): Omit<T, "kind"> {
  const { kind: _kind, ...rest } = value as T & { kind?: string };
  return rest;
}

function shortenTexts(value: unknown, most: number): unknown {
  if (typeof value === "string") return cut(value, most);
  if (Array.isArray(value)) return value.map((item) => shortenTexts(item, most));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortenTexts(item, most)]));
}
