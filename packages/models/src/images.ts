import type { LanguageModelV4FilePart, LanguageModelV4TextPart } from "@ai-sdk/provider";

/** How images can be sent: not at all, not those of this prompt, only inline, or also by URL. */
export type ImageSupport = "none" | "refused" | "inline" | "any";

/** The formats that every provider reads. */
const readable = /^image\/(?:png|jpeg|gif|webp)$/;

const note = (why: string): LanguageModelV4TextPart => ({
  type: "text",
  text: `[An image was left out here: ${why}.]`,
});

/** An image as data or URL, or a note for the model that an image is missing. */
export function toImagePart(
  url: string,
  support: ImageSupport,
): LanguageModelV4FilePart | LanguageModelV4TextPart {
  if (support === "none") return note("this model does not read images");
  if (support === "refused")
    return note("the model's endpoint refused it, or another one of this conversation");
  const inline = /^data:(image\/[\w.+-]{1,100});base64,/.exec(url);
  if (inline) {
    const mediaType = inline[1]!.toLowerCase().replace("image/jpg", "image/jpeg");
    const data = url.slice(inline[0].length).replace(/\s/g, "");
    if (!readable.test(mediaType)) return note(`models do not read ${mediaType}`);
    return /^[A-Za-z0-9+/]+={0,2}$/.test(data)
      ? { type: "file", mediaType, data: { type: "data", data } }
      : note("it is no valid base64");
  }
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    return note("its address is neither a data nor an http URL");
  if (support === "inline") return note("this model reads images only when they are sent inline");
  return { type: "file", mediaType: "image/*", data: { type: "url", url: new URL(url) } };
}

/** Whether a model is known to read text only. */
export function isTextOnly(modelId: string): boolean {
  return /deepseek-(?:chat|reasoner|coder|v\d|r1)|codestral|devstral|gpt-oss|gpt-3\.5|o1-mini|o3-mini|grok-code|qwen3?-coder|glm-4\.[5-7](?!v)|minimax-m|kimi-k2(?!\.[5-9])/i.test(
    modelId,
  );
}
