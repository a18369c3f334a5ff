import { PlatformError } from "@sandpiper/core/errors";
import { type ChatMessage, type Content, textContent } from "@sandpiper/wire";
import { parseContent } from "../../../conversations/log/messages.ts";

/** Maximum characters of all system messages together, like a start's `system_message_suffix`. */
const maxSystemLength = 32_768;

/** Maximum parts of the forwarded message. */
const maxParts = 100;

/** The parts of a chat that the agent gets. */
export interface ChatInput {
  /** The user's last message. */
  message: Content[];
  /** Earlier messages, for a new conversation. */
  before: Content[];
  /** Texts of the system messages. */
  system: string;
}

/**
 * Parses the messages of a chat. Throws BadRequest without a non-empty user message,
 * InvalidParameter for unsupported parts.
 */
export function parseChat(messages: readonly ChatMessage[]): ChatInput {
  const last = messages.findLastIndex(({ role }) => role === "user");
  if (last < 0) throw new PlatformError("ChatWithoutUserMessage");
  const message = parseMessage(messages[last]!);
  if (message.length === 0) throw new PlatformError("ChatMessageEmpty");
  const instructions = messages.filter(isInstruction).map(getText);
  const system = instructions.filter((text) => text !== "").join("\n\n");
  if (system.length > maxSystemLength)
    throw new PlatformError("SystemMessagesTooLong", { maxLength: maxSystemLength });
  const before = messages.slice(0, last).filter((one) => !isInstruction(one) && getText(one) !== "");
  return { message, before: toContext(before), system };
}

function isInstruction({ role }: ChatMessage): boolean {
  return role === "system" || role === "developer";
}

function parseMessage({ content }: ChatMessage): Content[] {
  if (typeof content === "string") return content === "" ? [] : parseContent([textContent(content)]);
  const parts = (content ?? []).filter(({ type, text }) => type !== "text" || text);
  if (parts.length > maxParts) throw new PlatformError("TooManyMessageParts", { maxParts });
  return parseContent(
    parts.map(({ type, text, image_url: image }) => {
      if (type === "text") return textContent(text!);
      const url = typeof image === "string" ? image : image?.url;
      if (type === "image_url" && url) return { type, image_url: { url } };
      throw new PlatformError("MessagePartUnsupported", { type });
    }),
  );
}

function getText({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).flatMap(({ type, text }) => (type === "text" && text ? [text] : [])).join("\n");
}

/** An earlier chat as one part of a message. */
function toContext(messages: readonly ChatMessage[]): Content[] {
  if (messages.length === 0) return [];
  const lines = messages.map((one) => `<message role="${one.role}">\n${getText(one)}\n</message>`);
  return [textContent(`What was said before this message:\n\n${lines.join("\n")}\n\nThe message:`)];
}
