import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import type { Content, MessageToolCall, ReasoningItem, ThinkingBlock, TokenUsage } from "@sandpiper/wire";
import type { AwsAccess } from "./aws.ts";
import type { CallOptions } from "./call-options.ts";

/** What a request without a prompt says about an endpoint; `fine` also where it says nothing. */
export type Look = "fine" | "refused" | "unreachable";

/** A language model, ready to be called. */
export interface Model {
  /** The name as configured, for example `anthropic/claude-sonnet-4-5`. */
  readonly name: string;
  /** Tokens; 0 when unknown. */
  readonly contextWindow: number;
  /**
   * Calls the model and streams the answer. Retries temporary failures until the first part was
   * streamed. Throws PlatformError ContextWindowExceeded for a prompt that is too long, ModelFailed
   * for other failures, each with the provider's message without keys, or the signal's reason when
   * aborted.
   */
  complete(request: ModelRequest): Promise<ModelResponse>;
  /** Looks, without a prompt, whether the endpoint is there and takes the key. */
  look?(signal: AbortSignal): Promise<Look>;
}

export interface ModelRequest {
  /** Blocks of the system message; a provider that supports prompt caching marks the first. */
  system: string[];
  messages: ModelMessage[];
  tools: ModelTool[];
  signal: AbortSignal;
  /** Purpose of the call, as in the metrics: agent, condenser … */
  usageId?: string;
  /** The conversation's cache key: providers find the prompt of the last call by it. */
  cacheKey?: string;
  /** Called with every piece of text as it arrives. */
  onDelta?: (delta: { content?: string; reasoning?: string }) => void;
  /** Called before each wait for another attempt. */
  onRetry?: (notice: RetryNotice) => void;
}

export interface RetryNotice {
  model: string;
  /** Number of the attempt that failed, from 1. */
  attempt: number;
  delayMs: number;
  /** Without the key. */
  reason: string;
}

/**
 * A thought of OpenAI's responses, placed before the tool call at this position (or the end of the
 * answer).
 */
export interface PlacedReasoning {
  callsBefore: number;
  item: ReasoningItem;
}

/** The loop's own message type; providers' shapes exist only behind `Model`. */
export type ModelMessage =
  | { role: "user"; content: Content[] }
  | {
      role: "assistant";
      text: string;
      reasoning?: string;
      thinkingBlocks: ThinkingBlock[];
      reasoningItems?: PlacedReasoning[];
      toolCalls: MessageToolCall[];
    }
  | { role: "tool"; toolCallId: string; toolName: string; content: Content[]; isError: boolean };

/** A tool as the model sees it; `parameters` is a JSON Schema object. */
export interface ModelTool {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

export interface ModelResponse {
  /** The provider's response id, or one of ours. */
  id: string;
  text: string;
  reasoning?: string;
  thinkingBlocks: ThinkingBlock[];
  reasoningItems?: PlacedReasoning[];
  toolCalls: MessageToolCall[];
  /** The error in a tool call that a model wrote as text; the model reads it and tries again. */
  problem?: string;
  /**
   * Tokens of this call; `per_turn_token` = prompt + completion, `context_window` = the model's.
   */
  usage: TokenUsage;
  /** USD; 0 when the price is unknown. */
  cost: number;
  finishReason: "stop" | "tool-calls" | "length" | "content-filter" | "other";
}

/**
 * A user's configuration of a model; absent fields fall back to the server's environment
 * (`OPENAI_API_KEY` and so on).
 */
export interface ModelConfig {
  model: string;
  apiKey?: string | undefined;
  baseUrl?: string | undefined;
  /** A user's stored access to Amazon Bedrock. */
  aws?: AwsAccess | undefined;
  /** A user named the address, so private networks are not reachable. */
  guarded?: boolean | undefined;
  options?: CallOptions | undefined;
  /** Goes along with each request. */
  trace?: TraceContext | undefined;
}

/** Opens a model. Throws PlatformError ModelNotConfigured that names the missing setting. */
export type OpenModel = (config: ModelConfig) => Model;
