import type { ModelMessage } from "@sandpiper/models/model";
import { type Content, textContent } from "@sandpiper/wire";
import { messageTokens, textTokens } from "./view-size.ts";

/**
 * Images per prompt and their characters: providers accept about 20 and 32 MB. Above it, half is
 * dropped, so that the cached beginning seldom changes.
 */
const maxImages = { count: 20, chars: 16_000_000 };

/** Images of one message. */
const maxPerMessage = 100;

const note = textContent("[An image was here. It is left out by now; look again if it matters.]");

/** Number of images, and characters of their URLs. */
interface Images {
  count: number;
  chars: number;
}

function imagesIn(message: ModelMessage): Images {
  const images = { count: 0, chars: 0 };
  if (message.role === "assistant") return images;
  for (const part of message.content) {
    if (part.type !== "image") continue;
    images.count += part.image_urls.length;
    for (const url of part.image_urls) images.chars += url.length;
  }
  return images;
}

export function tooMany({ count, chars }: Images): boolean {
  return count > maxImages.count || chars > maxImages.chars;
}

/**
 * The messages that must lose their images to reach half of the limit: oldest first, tool results
 * before user messages. The newest stays unless it is too large itself.
 */
export function imagesToDrop(messages: readonly ModelMessage[]): ModelMessage[] {
  const left = { count: 0, chars: 0 };
  const add = ({ count, chars }: Images, sign: 1 | -1) => {
    left.count += sign * count;
    left.chars += sign * chars;
  };
  for (const message of messages) add(imagesIn(message), 1);
  const older = messages.slice(0, -1);
  const order = [
    ...older.filter(({ role }) => role === "tool"),
    ...older.filter(({ role }) => role === "user"),
  ];
  const dropped: ModelMessage[] = [];
  for (const message of order) {
    if (left.count <= maxImages.count / 2 && left.chars <= maxImages.chars / 2) return dropped;
    dropped.push(message);
    add(imagesIn(message), -1);
  }
  return left.count > maxPerMessage || left.chars > maxImages.chars
    ? [...dropped, ...messages.slice(-1)]
    : dropped;
}

/** Replaces the images of a message by a note. */
export function withoutImages<M extends ModelMessage>(message: M): M {
  if (message.role === "assistant") return message;
  const content: Content[] = message.content.map((part) => (part.type === "image" ? note : part));
  return { ...message, content };
}

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
