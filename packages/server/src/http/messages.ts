import { type Content, type SendMessageRequest, textContent } from "@sandpiper/wire";

/** The parts of a client's message in the form in which they are stored; OpenAI's `image_url` parts become images (legacy-gui.md section 7.1). */
export function messageContent(parts: SendMessageRequest["content"]): Content[] {
  return parts.map((part) => {
    if (part.type === "text") return { ...textContent(part.text), cache_prompt: part.cache_prompt ?? false };
    const urls = part.type === "image" ? part.image_urls : [part.image_url.url];
    return { type: "image", image_urls: urls, cache_prompt: part.type === "image" && (part.cache_prompt ?? false) };
  });
}
