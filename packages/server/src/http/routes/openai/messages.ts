import { PlatformError } from "@sandpiper/core/errors";
import { type ChatMessage, type Content, textContent } from "@sandpiper/wire";
import { parseContent } from "../../../conversations/log/messages.ts";

/** Longest text of all system messages together, characters, as of a start's `system_message_suffix`. */
const maxSystemLength = 32_768;

/** Most parts of the message that is sent on. */
const maxParts = 100;

/** What of a chat goes to the agent. */
export interface Turn {
  /** The last message of the user. */
  message: Content[];
  /** What was said before it: for a conversation that does not know it yet. */
  before: Content[];
  /** Texts of the system's messages. */
  system: string;
}

/** Reads the messages of a chat. Throws BadRequest without a message of the user that says something, InvalidParameter for parts that cannot be sent on. */
export function readChat(messages: readonly ChatMessage[]): Turn {
  const last = messages.findLastIndex(({ role }) => role === "user");
  if (last < 0) throw new PlatformError("BadRequest", "The messages need one with the role user.");
  const message = readMessage(messages[last]!);
  if (message.length === 0)
    throw new PlatformError("BadRequest", "The last message of the user says nothing.");
  const instructions = messages.filter(isInstruction).map(textOf);
  const system = instructions.filter((text) => text !== "").join("\n\n");
  if (system.length > maxSystemLength)
    throw new PlatformError(
      "InvalidParameter",
      `The system messages have at most ${maxSystemLength} characters.`,
    );
  const before = messages.slice(0, last).filter((one) => !isInstruction(one) && textOf(one) !== "");
  return { message, before: context(before), system };
}

function isInstruction({ role }: ChatMessage): boolean {
  return role === "system" || role === "developer";
}

/** Throws InvalidParameter. */
function readMessage({ content }: ChatMessage): Content[] {
  if (typeof content === "string") return content === "" ? [] : parseContent([textContent(content)]);
  const parts = (content ?? []).filter(({ type, text }) => type !== "text" || text);
  if (parts.length > maxParts)
    throw new PlatformError("InvalidParameter", `A message has at most ${maxParts} parts.`);
  return parseContent(
    parts.map(({ type, text, image_url: image }) => {
      if (type === "text") return textContent(text!);
      const url = typeof image === "string" ? image : image?.url;
      if (type === "image_url" && url) return { type, image_url: { url } };
      throw new PlatformError(
        "InvalidParameter",
        `Parts of the type '${type}' are not supported: send text and image_url.`,
      );
    }),
  );
}

function textOf({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).flatMap(({ type, text }) => (type === "text" && text ? [text] : [])).join("\n");
}

/** A chat that was led elsewhere, as one part of a message. */
function context(messages: readonly ChatMessage[]): Content[] {
  if (messages.length === 0) return [];
  const told = messages.map((one) => `<message role="${one.role}">\n${textOf(one)}\n</message>`);
  return [textContent(`What was said before this message:\n\n${told.join("\n")}\n\nThe message:`)];
}
