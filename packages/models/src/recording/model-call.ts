import type { RecordedFailure, RecordedMessage, RecordedResponse, RecordedTool } from "@sandpiper/wire";

/**
 * One call of a model in a conversation. The prompt of the agent's calls is not kept: the view makes it again out of the events up to `atSeq`, and the digests
 * tell whether that is what the model was sent. Other calls have a prompt of their own.
 */
export interface ModelCall {
  /** As in the metrics: agent, condenser, title … */
  usageId: string;
  model: string;
  /** Number of the last record when the call began. */
  atSeq: number;
  /** True for the first call of a run: its view was read anew from the log. */
  first: boolean;
  digests?: PromptDigests;
  /** The tools of the agent, where they are others than at the conversation's call before. */
  tools?: RecordedTool[];
  /** The prompt of a call that is not made of the view. */
  prompt?: { system: string[]; messages: RecordedMessage[]; tools: RecordedTool[] };
  /** Of the prompt only the last message was kept. */
  partial?: boolean;
  /** Milliseconds since the epoch. */
  startedAt: number;
  /** Milliseconds. */
  latency: number;
  /** Exactly one of the two. */
  response?: RecordedResponse;
  failure?: RecordedFailure;
}

/** What tells prompts apart: 32 hexadecimal digits each. */
export interface PromptDigests {
  system: string;
  tools: string;
  messages: string;
}
