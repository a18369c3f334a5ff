import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { Content } from "@sandpiper/wire";
import { toArgumentsObject } from "./call-arguments.ts";
import { type ImageSupport, toImagePart } from "./images.ts";
import type { ModelMessage, ModelRequest } from "./model.ts";
import type { Wire } from "./providers.ts";
import { replayDetails } from "./reasoning-details.ts";
import {
  type AssistantPart,
  anthropicThoughts,
  bedrockThoughts,
  getPhase,
  responsesThought,
  thoughtSignature,
} from "./thinking.ts";

/**
 * Characters of a tool's text that are sent; the middle of a longer one is cut (agent-behaviour.md
 * section 3).
 */
export const maxToolChars = 30_000;

export interface PromptOptions {
  wire: Wire;
  /** Replay `reasoning` as `reasoning_content`, which some endpoints want and others refuse. */
  replayReasoning: boolean;
  /** Replay signed and encrypted thoughts; default: true. */
  thoughts?: boolean;
  /** The called model's name; it marks thoughts that only this model may get back. */
  model?: string;
  /** Mark where a prompt cache may end. */
  marksCache?: boolean;
  /** Default: any. */
  images?: ImageSupport;
  /** Characters of a tool's text that are sent; default `maxToolChars`. */
  maxToolChars?: number | undefined;
}

/** Wires that carry arguments and results as text. */
const textArguments: ReadonlySet<Wire> = new Set(["openai", "responses"]);

type AssistantMessage = Extract<ModelMessage, { role: "assistant" }>;
type ToolMessage = Extract<ModelMessage, { role: "tool" }>;
type UserPart = LanguageModelV4TextPart | LanguageModelV4FilePart;

const cacheable: SharedV4ProviderOptions = {
  anthropic: { cacheControl: { type: "ephemeral" } },
  bedrock: { cachePoint: { type: "default" } },
};

/** Wires that accept several system blocks, of which the first is cached separately. */
const separateBlocks: ReadonlySet<Wire> = new Set(["anthropic", "bedrock"]);

/**
 * Converts a request to the AI SDK's shape. Consecutive tool results become one message; empty
 * texts and messages are dropped, because endpoints refuse them; lone surrogates are replaced.
 */
export function toPrompt(
  request: Pick<ModelRequest, "system" | "messages">,
  options: PromptOptions,
): LanguageModelV4Prompt {
  const prompt = systemMessages(request.system, options.wire);
  const { messages } = request;
  for (let index = 0; index < messages.length; ) {
    const message = messages[index]!;
    if (message.role === "tool") {
      let end = index + 1;
      while (messages[end]?.role === "tool") end += 1;
      const results = inOrderOfCalls(messages.slice(index, end) as ToolMessage[], messages[index - 1]);
      prompt.push(...toolMessages(results, options));
      index += results.length;
      continue;
    }
    const content = once(message, options, () =>
      message.role === "user" ? userParts(message.content, options) : assistantParts(message, options),
    );
    const providerOptions = message.role === "assistant" ? details(message, options) : undefined;
    if (content.length > 0)
      prompt.push({
        role: message.role,
        content,
        ...(providerOptions && { providerOptions }),
      } as LanguageModelV4Message);
    index += 1;
  }
  if (options.marksCache) markCacheable(prompt);
  return prompt;
}

/**
 * In a log, results of unusable calls come first, but some endpoints match calls and results by
 * position.
 */
function inOrderOfCalls(results: ToolMessage[], answer: ModelMessage | undefined): ToolMessage[] {
  if (results.length < 2 || answer?.role !== "assistant") return results;
  const places = new Map(answer.toolCalls.map(({ id }, place) => [id, place]));
  if (results.some(({ toolCallId }) => !places.has(toolCallId))) return results;
  return results.toSorted((one, other) => places.get(one.toolCallId)! - places.get(other.toolCallId)!);
}

/**
 * Cache of converted messages by options: each call of a conversation sends the same long history
 * again.
 */
const made = new WeakMap<ModelMessage, { key: string; parts: unknown }>();

/**
 * A turn grows by calls and thoughts; the cached conversion is valid while their numbers are equal.
 */
function once<Parts>(message: ModelMessage, options: PromptOptions, make: () => Parts): Parts {
  const { wire, replayReasoning, thoughts, images, model, maxToolChars: limit } = options;
  const size =
    message.role === "assistant" ? `${message.toolCalls.length} ${message.reasoningItems?.length}` : "";
  const key = `${wire} ${replayReasoning} ${thoughts} ${images} ${limit} ${model} ${size}`;
  const known = made.get(message);
  if (known?.key === key) return known.parts as Parts;
  const parts = make();
  made.set(message, { key, parts });
  return parts;
}

/**
 * Claude models get separate blocks, so that the first is cached alone; other endpoints take one
 * system message.
 */
function systemMessages(blocks: string[], wire: Wire): LanguageModelV4Prompt {
  const texts = blocks.filter((block) => block.trim() !== "").map((block) => block.toWellFormed());
  if (texts.length === 0) return [];
  return (separateBlocks.has(wire) ? texts : [texts.join("\n\n")]).map((content) => ({
    role: "system",
    content,
  }));
}

function userParts(content: readonly Content[], { images = "any" }: PromptOptions): UserPart[] {
  return content.flatMap((part): UserPart[] => {
    if (part.type === "image") return part.image_urls.map((url) => toImagePart(url, images));
    return part.text.trim() === "" ? [] : [{ type: "text", text: part.text.toWellFormed() }];
  });
}

/** Parts of a turn in addition to its content. */
function details({ thinkingBlocks }: AssistantMessage, { wire, thoughts = true, model = "" }: PromptOptions) {
  return wire === "openai" && thoughts ? replayDetails(thinkingBlocks, model) : undefined;
}

function assistantParts(message: AssistantMessage, options: PromptOptions): AssistantPart[] {
  const { wire, replayReasoning, thoughts = true } = options;
  const parts: AssistantPart[] = [];
  const items = (thoughts && wire === "responses" && message.reasoningItems) || [];
  const addItems = (callsBefore: number) => {
    for (const placed of items)
      if (placed.callsBefore === callsBefore) parts.push(...responsesThought(placed));
  };
  if (thoughts && wire === "anthropic") parts.push(...anthropicThoughts(message.thinkingBlocks));
  if (thoughts && wire === "bedrock") parts.push(...bedrockThoughts(message.thinkingBlocks));
  if (wire === "openai" && replayReasoning && message.reasoning) {
    parts.push({ type: "reasoning", text: message.reasoning.toWellFormed() });
  }
  addItems(0);
  const phase =
    thoughts && wire === "responses" ? getPhase(message.thinkingBlocks, options.model ?? "") : undefined;
  const providerOptions = phase === undefined ? undefined : { openai: { phase } };
  if (message.text.trim() !== "")
    parts.push({
      type: "text",
      text: message.text.toWellFormed(),
      ...(providerOptions && { providerOptions }),
    });
  const signature =
    thoughts && (wire === "google" || wire === "openai")
      ? thoughtSignature(message.thinkingBlocks)
      : undefined;
  message.toolCalls.forEach((call, index) => {
    if (index > 0) addItems(index);
    parts.push({
      type: "tool-call",
      toolCallId: safeId(call.id, wire),
      toolName: safeName(call.name),
      input: toolInput(call.arguments.toWellFormed() || "{}", wire),
      ...(signature && index === 0 && { providerOptions: { google: { thoughtSignature: signature } } }),
    });
  });
  // Thoughts alone are no answer: OpenAI refuses an item that nothing follows.
  return parts.some((part) => part.type !== "reasoning") || wire !== "responses" ? parts : [];
}

/**
 * Arguments of an earlier call. Chat completions and responses carry text, so valid text is sent
 * byte for byte, which hits the provider's cache; other wires carry an object.
 */
function toolInput(text: string, wire: Wire): unknown {
  const value = toArgumentsObject(text);
  if (!textArguments.has(wire)) return wellFormed(value);
  if ("malformed_arguments" in value) return value;
  return text.includes("\\u") && hasHalves(value) ? JSON.stringify(wellFormed(value)) : text;
}

/** JSON escapes a lone surrogate; it becomes U+FFFD, in keys and in values. */
const half = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

function wellFormed(value: object): unknown {
  return JSON.parse(JSON.stringify(value).replace(half, "$1\\ufffd"));
}

function hasHalves(value: object): boolean {
  return JSON.stringify(value).search(half) >= 0;
}

function toolMessages(results: ToolMessage[], options: PromptOptions): LanguageModelV4Message[] {
  const tool: LanguageModelV4Message = {
    role: "tool",
    content: results.map((result) => once(result, options, () => toolResult(result, options))),
  };
  // A chat-completions tool result holds text only: its images follow as a user message.
  const pictures =
    options.wire === "openai"
      ? results.flatMap(({ content }) => content.filter(({ type }) => type === "image"))
      : [];
  const images =
    pictures.length > 0 ? userParts(pictures, options).filter((part) => part.type === "file") : [];
  if (images.length === 0) return [tool];
  return [
    tool,
    { role: "user", content: [{ type: "text", text: "The images of the tool results above:" }, ...images] },
  ];
}

function toolResult(message: ToolMessage, options: PromptOptions): LanguageModelV4ToolResultPart {
  return {
    type: "tool-result",
    toolCallId: safeId(message.toolCallId, options.wire),
    toolName: safeName(message.toolName),
    output: toolOutput(message, options),
  };
}

function toolOutput(message: ToolMessage, options: PromptOptions): LanguageModelV4ToolResultOutput {
  const { wire, maxToolChars: limit } = options;
  const parts = userParts(message.content, options).map((part) =>
    part.type === "text" ? { ...part, text: cutMiddle(part.text, limit) } : part,
  );
  if (wire !== "openai" && parts.some((part) => part.type === "file"))
    return { type: "content", value: parts };
  const text = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n") || "(no output)";
  return { type: message.isError && !textArguments.has(wire) ? "error-text" : "text", value: text };
}

/** Leaves the beginning and the end of a long text, and says how much is missing between them. */
export function cutMiddle(text: string, limit = maxToolChars): string {
  if (text.length <= limit) return text;
  const notice = `\n[... ${text.length - limit} characters left out here ...]\n`;
  const kept = Math.max(0, limit - notice.length);
  return (
    text.slice(0, Math.ceil(kept / 2)) +
    notice +
    text.slice(text.length - Math.floor(kept / 2))
  ).toWellFormed();
}

/**
 * A Claude model's cache ends at marks: after the first system block, and after the newest user or
 * tool content.
 */
function markCacheable(prompt: LanguageModelV4Prompt): void {
  const first = prompt[0];
  if (first?.role === "system") first.providerOptions = cacheable;
  const last = prompt.findLast((message) => message.role === "user" || message.role === "tool");
  if (last) last.providerOptions = cacheable;
}

/**
 * Converts ids of another provider (a conversation may change its model) to the length and alphabet
 * that all providers accept.
 */
function safeId(id: string, wire: Wire): string {
  const short = id.length > 64 ? id.slice(-64) : id;
  return separateBlocks.has(wire) ? short.replace(/[^a-zA-Z0-9_-]/g, "_") || "_" : short.toWellFormed();
}

/** Tool names that a model made up may hold anything; every endpoint refuses more than this. */
function safeName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64) || "_";
}
