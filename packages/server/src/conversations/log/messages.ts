import type { Activation } from "@sandpiper/agent/skills/triggers";
import { PlatformError } from "@sandpiper/core/errors";
import type { Content, NewEvent, SendMessageRequest } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";

/**
 * Maximum length of a message, characters of texts and images together. Each page of events that
 * contains the message reads it again.
 */
export const maxMessageLength = 8 * 1024 * 1024;

/**
 * Converts a client's content parts to the stored form, also OpenAI's image shape (legacy-gui.md
 * section 7.1). Throws InvalidParameter when they are too long.
 */
export function parseContent(parts: SendMessageRequest["content"]): Content[] {
  const content = parts.map((part): Content => {
    if (part.type === "text")
      return { type: "text", text: part.text, cache_prompt: part.cache_prompt ?? false };
    const image_urls = part.type === "image" ? part.image_urls : [part.image_url.url];
    return { type: "image", image_urls, cache_prompt: false };
  });
  const lengths = content.flatMap((part) =>
    part.type === "text" ? part.text.length : part.image_urls.map((url) => url.length),
  );
  if (lengths.reduce((sum, length) => sum + length, 0) > maxMessageLength)
    throw new PlatformError("MessageTooLong", { max: maxMessageLength });
  return content;
}

/** A user message with the skills that it activates. */
export function userMessage(content: Content[], sender?: string, skills?: Activation): NewEvent {
  return {
    kind: "MessageEvent",
    source: "user",
    llm_message: { role: "user", content },
    activated_skills: skills?.names ?? [],
    extended_content: skills?.content ?? [],
    ...(sender ? { sender } : {}),
  };
}

/**
 * The title of a conversation without a title model: the first line of its first message, at most
 * 50 characters (agent-behaviour.md section 11, fallback). Undefined when there is no text. Secrets
 * are masked because more people read titles than messages.
 */
export function makeTitle(content: readonly Content[], mask: (text: string) => string): string | undefined {
  const line = mask(contentText(content)).trim().split("\n", 1)[0]?.replace(/\s+/g, " ").trim();
  if (!line) return undefined;
  const characters = [...line];
  return characters.length > 50 ? `${characters.slice(0, 47).join("")}...` : line;
}
