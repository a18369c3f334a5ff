import type { ModelMessage } from "@sandpiper/models/model";
import { type Content, textContent } from "@sandpiper/wire";

/**
 * Images per prompt and their characters: providers accept about 20 and 32 MB. Above it, half is
 * dropped, so that the cached beginning seldom changes.
 */
const most = { count: 20, chars: 16_000_000 };

/** Images of one message. */
const mostAtOnce = 100;

const note = textContent("[An image was here. It is left out by now; look again if it matters.]");

/** Number of images, and characters of their URLs. */
export interface Images {
  count: number;
  chars: number;
}

export function imagesIn(message: ModelMessage): Images {
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
  return count > most.count || chars > most.chars;
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
    if (left.count <= most.count / 2 && left.chars <= most.chars / 2) return dropped;
    dropped.push(message);
    add(imagesIn(message), -1);
  }
  return left.count > mostAtOnce || left.chars > most.chars ? [...dropped, ...messages.slice(-1)] : dropped;
}

/** Replaces the images of a message by a note. */
export function withoutImages<M extends ModelMessage>(message: M): M {
  if (message.role === "assistant") return message;
  const content: Content[] = message.content.map((part) => (part.type === "image" ? note : part));
  return { ...message, content };
}
