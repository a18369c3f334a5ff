import { hash } from "node:crypto";
import type { ModelMessage, ModelTool } from "../model.ts";
import type { PromptDigests } from "./model-call.ts";

/** 32 hexadecimal digits that stand for a text. */
function digest(text: string): string {
  return hash("sha256", text, "hex").slice(0, 32);
}

export const digestJson = (value: unknown): string => digest(JSON.stringify(value));

/**
 * Digests growing prompts: each message is read once, and a prompt's digest chains that of its
 * beginning with its last message. Messages of earlier prompts must not change.
 */
export class PromptDigester {
  #messages: readonly ModelMessage[] = [];
  #chain: string[] = [];

  digest({
    system,
    messages,
    tools,
  }: {
    system: readonly string[];
    messages: readonly ModelMessage[];
    tools: readonly ModelTool[];
  }): PromptDigests {
    let same = 0;
    while (same < this.#chain.length && this.#messages[same] === messages[same]) same++;
    this.#chain.length = same;
    for (const message of messages.slice(same))
      this.#chain.push(digest(`${this.#chain.at(-1) ?? ""}${JSON.stringify(message)}`));
    this.#messages = messages;
    return { system: digestJson(system), tools: digestJson(tools), messages: this.#chain.at(-1) ?? "" };
  }
}
