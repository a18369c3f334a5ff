import type { Content } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";

/** Characters and images of one result, and bytes of one image. */
const maxText = 200_000;
const maxImages = 10;
const maxImageBytes = 5 * 1024 * 1024;
const maxParts = 1_000;

/** Terminal sequences and control characters: some providers refuse them. */
const controls =
  /\u001b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\u0007\u001b]{0,1000}(?:\u0007|\u001b\\))|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;

/** Magic bytes of the image types that models accept. */
const imageTypes: readonly [type: string, begin: RegExp][] = [
  ["image/png", /^\x89PNG\r\n\x1a\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF[\s\S]{4}WEBP/],
];

/** Converts a server's result to content. Never throws: a note replaces what cannot be shown. */
export function resultContent(answer: Record<string, unknown>): { content: Content[]; isError: boolean } {
  const { content: given, structuredContent, isError } = answer;
  // Some servers give only a text.
  const parts = Array.isArray(given)
    ? (given as unknown[])
    : typeof given === "string"
      ? [{ type: "text", text: given }]
      : [];
  const content: Content[] = [];
  let room = maxText;
  let images = 0;
  const addText = (whole: string) => {
    if (whole === "" || room < 0) return;
    const text = whole.slice(0, room + 1).replace(controls, "");
    const shown =
      whole.length > room ? `${text.slice(0, room)}\n[The result is longer: the rest was left out.]` : text;
    room -= whole.length;
    content.push(textContent(shown.toWellFormed()));
  };
  for (const part of parts.slice(0, maxParts)) {
    const found = readPart(part);
    if (typeof found === "string") addText(found);
    else if (images++ < maxImages) content.push(found);
    else if (images === maxImages + 2) addText("[More images were left out.]");
  }
  if ((given ?? undefined) !== undefined && !Array.isArray(given) && typeof given !== "string")
    addText("[The result is of a form that cannot be shown.]");
  if (parts.length > maxParts) addText(`[${parts.length - maxParts} more parts were left out.]`);
  if (content.length === 0 && structuredContent !== undefined) addText(jsonText(structuredContent));
  // The first versions of the protocol had only this.
  if (content.length === 0 && answer.toolResult !== undefined) addText(jsonText(answer.toolResult));
  return { content, isError: isError === true };
}

function readPart(part: unknown): string | Content {
  const { type, text, data, mimeType, resource, uri, name } = (part ?? {}) as Record<string, unknown>;
  if (type === "text") return typeof text === "string" ? text : "[A part of the result is no text.]";
  if (type === "image") return image(data, mimeType);
  if (type === "audio") return `[Audio (${word(mimeType)}) cannot be shown.]`;
  if (type === "resource_link") return `[Resource ${word(name)}: ${word(uri)}]`;
  if (type === "resource") {
    const { uri: at, text: inner, blob, mimeType: kind } = (resource ?? {}) as Record<string, unknown>;
    if (typeof inner === "string") return `[Resource ${word(at)}]\n${inner}`;
    if (typeof kind === "string" && kind.startsWith("image/")) return image(blob, kind);
    return `[Resource ${word(at)} (${word(kind)}) cannot be shown.]`;
  }
  return "[A part of the result is of a kind that cannot be shown.]";
}

/** Checks the bytes: a wrong type makes providers refuse the whole conversation. */
function image(data: unknown, mimeType: unknown): string | Content {
  if (typeof data !== "string") return `[An image (${word(mimeType)}) cannot be shown.]`;
  if ((data.length / 4) * 3 > maxImageBytes)
    return `[An image of more than ${maxImageBytes / 1024 / 1024} MB was left out.]`;
  const bytes = Buffer.from(data, "base64");
  const type = imageTypes.find(([, begin]) => begin.test(bytes.toString("latin1", 0, 16)))?.[0];
  if (type === undefined) return `[An image (${word(mimeType)}) cannot be shown.]`;
  return {
    type: "image",
    image_urls: [`data:${type};base64,${bytes.toString("base64")}`],
    cache_prompt: false,
  };
}

function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return "[The result is nested too deeply to be shown.]";
  }
}

function word(value: unknown): string {
  return typeof value === "string" ? value.slice(0, 200).replace(/[\s\]]+/g, " ") : "of no kind";
}
