import type { Activation } from "@sandpiper/agent/skills/triggers";
import { PlatformError } from "@sandpiper/core/errors";
import type { Content, NewEvent, SendMessageRequest } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";

/** Longest message, characters of its texts and images together: it is read again with each page of events that it stands in. */
export const maxMessageLength = 8 * 1024 * 1024;

/** A client's content parts in the stored form: OpenAI's image shape becomes ours (legacy-gui.md section 7.1). Throws InvalidParameter for a longer one. */
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
    throw new PlatformError(
      "InvalidParameter",
      `A message has at most ${maxMessageLength} characters, images included.`,
    );
  return content;
}

/** A user message, with the skills that it brings along. */
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
 * A title from the first message: its first line, at most 50 characters (agent-behaviour.md section 11, fallback). `hide` takes secrets out: more people read
 * titles than messages. Undefined when there is no text.
 */
export function makeTitle(content: readonly Content[], mask: (text: string) => string): string | undefined {
  const line = mask(contentText(content)).trim().split("\n", 1)[0]?.replace(/\s+/g, " ").trim();
  if (!line) return undefined;
  const characters = [...line];
  return characters.length > 50 ? `${characters.slice(0, 47).join("")}...` : line;
}
