/** In whose way chat completions are written; absent: OpenAI's. */
export type Dialect = "ollama" | "openrouter" | "vllm";

export interface ScriptedToolCall {
  name: string;
  /** An object, or text that is streamed as it is: broken JSON for example. */
  arguments: object | string;
  /** Default: `call_<request>_<position>`. */
  id?: string;
  /** Google only: sent together with the call. */
  thoughtSignature?: string;
  /** Responses only: a thought before this call. */
  thinking?: { text: string; signature?: string };
}

export interface Usage {
  /** Prompt tokens, cache reads and writes included. */
  prompt: number;
  completion: number;
  cacheRead: number;
  cacheWrite: number;
  reasoning: number;
}

/** How an answer is sent; everything is optional. */
export interface Delivery {
  /** Characters of a text or argument delta. Default 12, more in a text of more than 1,200. */
  deltaSize?: number;
  /** Pause before every event, ms. */
  paceMs?: number;
  /**
   * Bytes of a write, to split characters and lines across packets. Default: an event is one write.
   */
  writeBytes?: number;
  /** Cut the connection after this many events. */
  cutAfter?: number;
  /** End the response properly, but after this many events. */
  endAfter?: number;
  /** Say nothing more after this many events, with the connection open. */
  stallAfter?: number;
  /** Replaces the event at this position by invalid JSON. */
  malformedAt?: number;
}

export interface Answer extends Delivery {
  text?: string;
  /** A refusal of the model in the wire's format, instead of a text. */
  refusal?: string;
  /**
   * The signature is what responses call encrypted content; a blank line in the text parts two
   * summaries.
   */
  thinking?: { text: string; signature?: string };
  /** Anthropic and Bedrock only: a block of encrypted thoughts. */
  redactedThinking?: string;
  /** OpenRouter only: `reasoning_details`, one list for each chunk. */
  reasoningDetails?: object[][];
  /** Responses API only: the phase of the text, such as `commentary`. */
  phase?: string;
  toolCalls?: ScriptedToolCall[];
  usage?: Partial<Usage>;
  /** In the words of chat completions. Default: `tool_calls` with calls, else `stop`. */
  finish?: "stop" | "tool_calls" | "length" | "content_filter";
  /** Ends the stream with an error event instead of a finish. */
  streamError?: { message: string; type?: string; code?: number };
  id?: string;
}
