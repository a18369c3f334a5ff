import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { Content, MessageToolCall } from "@sandpiper/wire";
import type { ModelMessage, ModelRequest } from "./model.ts";
import type { Wire } from "./providers.ts";
import { type AssistantPart, readableBlocks, thoughtSignature } from "./thinking.ts";

/** Characters of a tool's text that are sent; the middle of longer ones is left out (agent-behaviour.md section 3). */
export const maxToolChars = 30_000;

export interface PromptOptions {
  wire: Wire;
  /** Replay `reasoning` as `reasoning_content`, which some endpoints want and others refuse. */
  replayReasoning: boolean;
}

type AssistantMessage = Extract<ModelMessage, { role: "assistant" }>;
type ToolMessage = Extract<ModelMessage, { role: "tool" }>;
type UserPart = LanguageModelV4TextPart | LanguageModelV4FilePart;

const cacheable: SharedV4ProviderOptions = { anthropic: { cacheControl: { type: "ephemeral" } } };

/**
 * A request in the shape of the AI SDK's providers. Tool results that follow each other become one message; texts and messages
 * with nothing in them are left out, because endpoints refuse them; half surrogate pairs are replaced.
 */
export function toPrompt(request: Pick<ModelRequest, "system" | "messages">, options: PromptOptions): LanguageModelV4Prompt {
  const prompt = systemMessages(request.system, options.wire);
  const { messages } = request;
  for (let index = 0; index < messages.length; ) {
    const message = messages[index]!;
    if (message.role === "tool") {
      const end = messages.findIndex((other, at) => at > index && other.role !== "tool");
      const results = messages.slice(index, end < 0 ? undefined : end) as ToolMessage[];
      prompt.push(...toolMessages(results, options.wire));
      index += results.length;
      continue;
    }
    const content = message.role === "user" ? userParts(message.content) : assistantParts(message, options);
    if (content.length > 0) prompt.push({ role: message.role, content } as LanguageModelV4Message);
    index += 1;
  }
  if (options.wire === "anthropic") markCacheable(prompt);
  return prompt;
}

/** Anthropic gets the blocks apart, so that the first can be cached alone; other endpoints take one system message at most. */
function systemMessages(blocks: string[], wire: Wire): LanguageModelV4Prompt {
  const texts = blocks.filter((block) => block.trim() !== "").map((block) => block.toWellFormed());
  if (texts.length === 0) return [];
  return (wire === "anthropic" ? texts : [texts.join("\n\n")]).map((content) => ({ role: "system", content }));
}

function userParts(content: readonly Content[]): UserPart[] {
  return content.flatMap((part): UserPart[] => {
    if (part.type === "image") return part.image_urls.flatMap(imagePart);
    return part.text.trim() === "" ? [] : [{ type: "text", text: part.text.toWellFormed() }];
  });
}

/** Data URLs are sent inline, http(s) addresses as such; anything else is no image. */
function imagePart(url: string): LanguageModelV4FilePart[] {
  const inline = /^data:(image\/[\w.+-]+);base64,([A-Za-z0-9+/=\s]+)$/.exec(url);
  if (inline) return [{ type: "file", mediaType: inline[1]!, data: { type: "data", data: inline[2]!.replace(/\s/g, "") } }];
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return [];
  return [{ type: "file", mediaType: "image/*", data: { type: "url", url: new URL(url) } }];
}

function assistantParts(message: AssistantMessage, { wire, replayReasoning }: PromptOptions): AssistantPart[] {
  const parts: AssistantPart[] = [];
  if (wire === "anthropic") parts.push(...readableBlocks(message.thinkingBlocks));
  if (wire === "openai" && replayReasoning && message.reasoning) parts.push({ type: "reasoning", text: message.reasoning });
  if (message.text.trim() !== "") parts.push({ type: "text", text: message.text.toWellFormed() });
  const signature = wire === "google" ? thoughtSignature(message.thinkingBlocks) : undefined;
  message.toolCalls.forEach((call, index) => {
    parts.push({
      type: "tool-call",
      toolCallId: safeId(call.id, wire),
      toolName: safeName(call.name),
      input: toolInput(call, wire),
      ...(signature && index === 0 && { providerOptions: { google: { thoughtSignature: signature } } }),
    });
  });
  return parts;
}

/**
 * Arguments as they are replayed. Chat completions carry text, so that valid text goes back byte for byte (and hits the
 * provider's cache); the other wires carry an object. What is not a JSON object was answered with an error already; endpoints
 * refuse it, so it goes back as text inside one.
 */
function toolInput(call: MessageToolCall, wire: Wire): unknown {
  const text = call.arguments.toWellFormed() || "{}";
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return wire === "openai" ? text : wellFormed(value);
  } catch {}
  return { malformed_arguments: text };
}

/** JSON writes half a surrogate pair as an escape; it becomes U+FFFD, in keys as well as in values. */
function wellFormed(value: object): unknown {
  return JSON.parse(JSON.stringify(value).replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, "$1\\ufffd"));
}

function toolMessages(results: ToolMessage[], wire: Wire): LanguageModelV4Message[] {
  const tool: LanguageModelV4Message = { role: "tool", content: results.map((result) => toolResult(result, wire)) };
  // A chat-completions tool result holds text only: its images follow as a user message.
  const images =
    wire === "openai" ? results.flatMap((result) => userParts(result.content.filter((part) => part.type === "image"))) : [];
  if (images.length === 0) return [tool];
  return [tool, { role: "user", content: [{ type: "text", text: "The images of the tool results above:" }, ...images] }];
}

function toolResult(message: ToolMessage, wire: Wire): LanguageModelV4ToolResultPart {
  return {
    type: "tool-result",
    toolCallId: safeId(message.toolCallId, wire),
    toolName: safeName(message.toolName),
    output: toolOutput(message, wire),
  };
}

function toolOutput(message: ToolMessage, wire: Wire): LanguageModelV4ToolResultOutput {
  const parts = userParts(message.content).map((part) => (part.type === "text" ? { ...part, text: cutMiddle(part.text) } : part));
  if (wire !== "openai" && parts.some((part) => part.type === "file")) return { type: "content", value: parts };
  const text = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n") || "(no output)";
  return { type: message.isError && wire !== "openai" ? "error-text" : "text", value: text };
}

/** Leaves the beginning and the end of a long text, and says how much is missing between them. */
export function cutMiddle(text: string, limit = maxToolChars): string {
  if (text.length <= limit) return text;
  const notice = `\n[... ${text.length - limit} characters left out here ...]\n`;
  const kept = limit - notice.length;
  return (text.slice(0, Math.ceil(kept / 2)) + notice + text.slice(text.length - Math.floor(kept / 2))).toWellFormed();
}

/** Anthropic's prompt cache ends at marks: after the first system block, and after the newest user or tool content. */
function markCacheable(prompt: LanguageModelV4Prompt): void {
  const first = prompt[0];
  if (first?.role === "system") first.providerOptions = cacheable;
  const last = prompt.findLast((message) => message.role === "user" || message.role === "tool");
  if (last) last.providerOptions = cacheable;
}

/** Ids that another provider made (a conversation may change its model) in the alphabet that Anthropic accepts. */
function safeId(id: string, wire: Wire): string {
  return wire === "anthropic" ? id.replace(/[^a-zA-Z0-9_-]/g, "_") || "_" : id.toWellFormed();
}

/** Tool names that a model made up may hold anything; every endpoint refuses more than this. */
function safeName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64) || "_";
}
