import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { ReasoningItem, ThinkingBlock } from "@sandpiper/wire";
import type { PlacedReasoning } from "./model.ts";
import type { Wire } from "./providers.ts";
import { bedrockBlock } from "./thinking.ts";

type ReasoningPart = Extract<
  LanguageModelV4StreamPart,
  { type: "reasoning-start" | "reasoning-delta" | "reasoning-end" }
>;

/**
 * Collects the thoughts that a provider wants back: signed and encrypted blocks, and items of
 * responses.
 */
export class ThoughtCollector {
  readonly #wire: Wire;
  readonly #blocks = new Map<string, ThinkingBlock>();
  readonly #items = new Map<string, PlacedReasoning>();
  /** Which part of which item a part of the stream is. */
  #lastPart = "";

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  get blocks(): ThinkingBlock[] {
    return [...this.#blocks.values()];
  }

  get items(): PlacedReasoning[] {
    return [...this.#items.values()].map(({ callsBefore, item }) => ({
      callsBefore,
      item: { ...item, summary: item.summary.filter((text) => text !== "") },
    }));
  }

  /**
   * Adds a part after `callsBefore` tool calls. Returns the text to show, with a blank line between
   * two summaries of one thought.
   */
  add(part: ReasoningPart, callsBefore: number): string {
    const text = part.type === "reasoning-delta" ? part.delta : "";
    if (this.#wire === "responses") return this.#addItem(part, text, callsBefore);
    if (this.#wire === "anthropic" || this.#wire === "bedrock") this.#addBlock(part, text);
    return text;
  }

  #addItem(part: ReasoningPart, text: string, callsBefore: number): string {
    const { itemId, reasoningEncryptedContent } = part.providerMetadata?.openai ?? {};
    if (typeof itemId !== "string") return text;
    const placed = this.#items.get(itemId) ?? {
      callsBefore,
      item: { id: itemId, summary: [] } as ReasoningItem,
    };
    this.#items.set(itemId, placed);
    if (typeof reasoningEncryptedContent === "string")
      placed.item.encrypted_content = reasoningEncryptedContent;
    if (text === "") return "";
    const isNew = this.#lastPart !== part.id;
    const separates = isNew && this.#lastPart !== "";
    this.#lastPart = part.id;
    const { summary } = placed.item;
    if (isNew) summary.push(text);
    else summary.push((summary.pop() ?? "") + text);
    return separates ? `\n\n${text}` : text;
  }

  #addBlock(part: ReasoningPart, text: string): void {
    const metadata = part.providerMetadata?.[this.#wire] ?? {};
    if (typeof metadata.redactedData === "string") {
      const data = metadata.redactedData;
      this.#blocks.set(
        part.id,
        this.#wire === "bedrock" ? bedrockBlock(data) : { type: "redacted_thinking", data },
      );
    }
    if (typeof metadata.redactedContent === "string")
      this.#blocks.set(part.id, bedrockBlock(metadata.redactedContent));
    let block = this.#blocks.get(part.id);
    if (!block && part.type !== "reasoning-end") {
      block = { type: "thinking", thinking: "" };
      this.#blocks.set(part.id, block);
    }
    if (block?.type !== "thinking") return;
    block.thinking += text;
    if (typeof metadata.signature === "string") block.signature = metadata.signature;
  }
}
