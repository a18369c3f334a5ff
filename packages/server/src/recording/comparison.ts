import type { ModelMessage, ModelTool } from "@sandpiper/models/model";
import {
  type Content,
  contentText,
  type RecordedCall,
  type RecordedMessage,
  type RecordedTool,
} from "@sandpiper/wire";
import { firstDifference } from "./normalise.ts";
import type { Recording } from "./read.ts";

/** The kinds of differences between a replay and its recording. */
export type DivergenceKind =
  | "system prompt"
  | "tools"
  | "user message"
  | "answer"
  | "tool result"
  | "order of messages"
  | "missing call"
  | "additional call"
  | "status"
  | "stalled";

export interface Divergence {
  kind: DivergenceKind;
  /** The model call with the difference (usage id and number, from 1), or another place. */
  at: string;
  /** The difference in a few words. */
  what: string;
  /** Excerpts around the first difference, when texts are compared. */
  recorded?: string;
  replayed?: string;
}

export interface Prompt {
  system: readonly string[];
  tools: readonly ModelTool[];
  messages: readonly ModelMessage[];
}

/** Make the texts of both sides comparable. */
export interface Normalisers {
  recorded(text: string): string;
  replayed(text: string): string;
}

/** Compares the prompts of a replay with the recording; reports each difference once. */
export class Comparison {
  readonly divergences: Divergence[] = [];
  readonly #recording: Recording;
  readonly #normalise: Normalisers;
  /** The recorded message that a message corresponds to. */
  readonly #known = new WeakMap<ModelMessage, RecordedMessage>();
  readonly #reported = new Set<string>();

  constructor(recording: Recording, normalise: Normalisers) {
    this.#recording = recording;
    this.#normalise = normalise;
  }

  comparePrompt(call: RecordedCall, at: string, prompt: Prompt): void {
    const { systems, tools, messages } = this.#recording;
    this.#once(`system ${call.system}`, () =>
      this.#compareTexts(
        "system prompt",
        at,
        "the system prompt",
        systems[call.system]!.join("\n\n"),
        prompt.system.join("\n\n"),
      ),
    );
    this.#once(`tools ${call.tools} ${prompt.tools.map(({ name }) => name).join()}`, () =>
      this.#compareTools(at, tools[call.tools]!, prompt.tools),
    );
    this.compareMessages(
      at,
      call.messages.flatMap(([first, count]) => messages.slice(first, first + count)),
      prompt.messages,
    );
  }

  /** Compares messages by position; after a mismatch in kind, only those after the last answer. */
  compareMessages(at: string, recorded: readonly RecordedMessage[], replayed: readonly ModelMessage[]): void {
    const length = Math.max(recorded.length, replayed.length);
    for (let index = 0; index < length; index++) {
      const [left, right] = [recorded[index], replayed[index]];
      if (left && right && this.#known.get(right) === left) continue;
      if (left && right && this.#getIdentity(left, "recorded") === this.#getIdentity(right, "replayed")) {
        this.#known.set(right, left);
        this.#compareMessage(at, left, right);
        continue;
      }
      this.#once("order", () =>
        this.add({
          kind: "order of messages",
          at,
          what: `message ${index + 1}`,
          recorded: left ? abbreviate(left) : "nothing",
          replayed: right ? abbreviate(right) : "nothing",
        }),
      );
      const [lastLeft, lastRight] = [tail(recorded), tail(replayed)];
      for (const [place, one] of lastLeft.entries()) {
        const other = lastRight[place];
        if (
          other &&
          this.#known.get(other) !== one &&
          this.#getIdentity(one, "recorded") === this.#getIdentity(other, "replayed")
        ) {
          this.#known.set(other, one);
          this.#compareMessage(at, one, other);
        }
      }
      return;
    }
  }

  add(divergence: Divergence): void {
    this.divergences.push(divergence);
  }

  #compareMessage(at: string, left: RecordedMessage, right: ModelMessage): void {
    const kind = left.role === "tool" ? "tool result" : left.role === "assistant" ? "answer" : "user message";
    const what =
      left.role === "tool"
        ? `result of ${left.toolName} (${left.toolCallId})`
        : left.role === "assistant"
          ? "an answer of the model"
          : "a message";
    this.#compareTexts(kind, at, what, toText(left), toText(right));
  }

  #compareTexts(kind: DivergenceKind, at: string, what: string, recorded: string, replayed: string): void {
    if (recorded === replayed) return;
    const [left, right] = [this.#normalise.recorded(recorded), this.#normalise.replayed(replayed)];
    if (left === right) return;
    // A message that is in many prompts is reported once.
    const difference = firstDifference(left, right);
    this.#once(`${kind} ${what} ${difference.left} ${difference.right}`, () =>
      this.add({ kind, at, what, recorded: difference.left, replayed: difference.right }),
    );
  }

  #compareTools(at: string, recorded: readonly RecordedTool[], replayed: readonly ModelTool[]): void {
    const names = new Set([...recorded, ...replayed].map(({ name }) => name));
    for (const name of [...names].sort()) {
      const [left, right] = [recorded, replayed].map((tools) => tools.find((tool) => tool.name === name));
      if (!left || !right)
        this.#once(`tool ${name} ${!left}`, () =>
          this.add({ kind: "tools", at, what: `${name} is ${left ? "missing" : "new"}` }),
        );
      else
        this.#once(`tool ${name} ${JSON.stringify(right)}`, () =>
          this.#compareTexts("tools", at, name, toolText(left), toolText(right)),
        );
    }
  }

  /** Messages correspond only when these identities are equal. */
  #getIdentity(message: RecordedMessage, side: keyof Normalisers): string {
    return message.role === "tool" ? `tool ${this.#normalise[side](message.toolCallId)}` : message.role;
  }

  #once(key: string, work: () => void): void {
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    work();
  }
}

function tail<T extends RecordedMessage>(messages: readonly T[]): T[] {
  return messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1);
}

function abbreviate(message: RecordedMessage): string {
  const text = toText(message);
  return `${message.role}: ${text.length > 100 ? `${text.slice(0, 100)}…` : text}`;
}

/** A message as plain text, so that times and ids can be normalised. */
function toText(message: RecordedMessage): string {
  if (message.role === "user") return toContentText(message.content);
  if (message.role === "tool") return `${message.isError ? "(error) " : ""}${toContentText(message.content)}`;
  const { text, reasoning = "", thinkingBlocks, reasoningItems = [], toolCalls } = message;
  const calls = toolCalls.map(({ id, name, arguments: given }) => `${name}(${given}) as ${id}`);
  const thoughts = [...thinkingBlocks, ...reasoningItems].map((thought) => JSON.stringify(thought));
  return [text, reasoning, ...thoughts, ...calls].filter(Boolean).join("\n");
}

function toContentText(content: readonly Content[]): string {
  const images = content.flatMap((part) => (part.type === "image" ? part.image_urls : []));
  return [contentText(content), ...images].filter(Boolean).join("\n");
}

function toolText({ description, parameters }: RecordedTool | ModelTool): string {
  return `${description}\n${JSON.stringify(sortKeys(parameters))}`;
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sortKeys(item)]),
  );
}
