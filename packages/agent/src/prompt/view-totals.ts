import type { ModelMessage } from "@sandpiper/models/model";
import { type Images, imagesIn } from "./view-images.ts";
import { messageTokens, textTokens } from "./view-size.ts";

interface Facts {
  /** Ids of the message's events in order; empty for a summary. */
  sources: string[];
  tokens: number;
  images: Images;
}

/** Sizes of the messages of a view, and their sums. */
export class ViewTotals {
  /** Estimated. */
  tokens = 0;
  /** A message without events counts as one. */
  events = 0;
  readonly images: Images = { count: 0, chars: 0 };
  readonly #facts = new WeakMap<ModelMessage, Facts>();

  sources(message: ModelMessage): readonly string[] {
    return this.#facts.get(message)?.sources ?? [];
  }

  tokensOf(message: ModelMessage): number {
    return this.#facts.get(message)?.tokens ?? 0;
  }

  hasImages(message: ModelMessage): boolean {
    return (this.#facts.get(message)?.images.count ?? 0) > 0;
  }

  add(message: ModelMessage, sources: readonly string[]): void {
    const facts = { sources: [...sources], tokens: messageTokens(message), images: imagesIn(message) };
    this.#facts.set(message, facts);
    this.#sum(facts, 1);
  }

  remove(message: ModelMessage): void {
    const facts = this.#facts.get(message);
    if (facts) this.#sum(facts, -1);
  }

  /** Adds the text of one more event to a message. */
  extend(message: ModelMessage, source: string, text: string): void {
    const facts = this.#facts.get(message)!;
    const before = Math.max(1, facts.sources.length);
    facts.sources.push(source);
    this.events += facts.sources.length - before;
    const tokens = textTokens(text);
    facts.tokens += tokens;
    this.tokens += tokens;
  }

  reset(): void {
    this.tokens = 0;
    this.events = 0;
    Object.assign(this.images, { count: 0, chars: 0 });
  }

  #sum({ sources, tokens, images }: Facts, sign: 1 | -1): void {
    this.tokens += sign * tokens;
    this.events += sign * Math.max(1, sources.length);
    this.images.count += sign * images.count;
    this.images.chars += sign * images.chars;
  }
}
