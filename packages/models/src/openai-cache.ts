/**
 * Adds Anthropic's cache marks in the chat-completions form that proxies (LiteLLM, OpenRouter,
 * OpenHands) pass on: `cache_control` on the system text and on the last content of the last user
 * or tool message. Returns a new body.
 */
export function markCacheableBody(body: Record<string, unknown>): Record<string, unknown> {
  const messages = body.messages as ChatMessage[];
  const last = messages.findLastIndex((message) => message.role === "user" || message.role === "tool");
  return {
    ...body,
    messages: messages.map((message, index) =>
      message.role === "system" || index === last ? marked(message) : message,
    ),
  };
}

interface ChatMessage {
  role: string;
  content: string | object[] | null;
}

function marked(message: ChatMessage): ChatMessage {
  const parts =
    typeof message.content === "string" ? [{ type: "text", text: message.content }] : (message.content ?? []);
  const mark = { cache_control: { type: "ephemeral" } };
  return {
    ...message,
    content: parts.map((part, index) => (index === parts.length - 1 ? { ...part, ...mark } : part)),
  };
}
