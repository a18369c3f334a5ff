import type { ModelMessage } from "@sandpiper/models/model";
import { cutMiddle } from "@sandpiper/models/prompt";
import { contentText } from "@sandpiper/wire";

/** Characters of one message, and the least to which it is cut. */
const [maxMessageChars, minMessageChars] = [8_000, 500];

/** Characters of all messages: about 100,000 tokens. */
export const maxTranscriptChars = 400_000;

/** Messages as text. Cuts the middle of long ones, then leaves out the oldest with a note. */
export function transcript(messages: readonly ModelMessage[], limit = maxTranscriptChars): string {
  const share = Math.floor((limit * 2) / Math.max(1, messages.length));
  const most = Math.max(Math.min(minMessageChars, limit), Math.min(maxMessageChars, limit, share));
  const parts: string[] = [];
  let length = 0;
  for (let index = messages.length - 1; index >= 0; index--) {
    const part = messageText(messages[index]!, most);
    if (length + part.length > limit && parts.length > 0) {
      parts.push(`[${index + 1} older messages are left out here.]`);
      break;
    }
    length += part.length + 2;
    parts.push(part);
  }
  return parts.reverse().join("\n\n");
}

function messageText(message: ModelMessage, most: number): string {
  const cut = (text: string) => cutMiddle(text, most);
  switch (message.role) {
    case "user":
      return `USER: ${cut(contentText(message.content))}`;
    case "tool":
      return `RESULT of ${message.toolName.slice(0, 100)}: ${cut(contentText(message.content))}`;
    case "assistant":
      return cut(
        [
          ...(message.text ? [`AGENT: ${message.text}`] : []),
          ...message.toolCalls.map((call) => `CALL of ${call.name.slice(0, 100)}: ${cut(call.arguments)}`),
        ].join("\n"),
      );
  }
}
