import type { RecordedFailure, RecordedMessage, RecordedResponse, RecordedTool } from "@sandpiper/wire";

/**
 * One model call of a conversation. The prompt of an agent's call is not stored: the view recreates
 * it from the events up to `atSeq`, and the digests verify it. Other calls store their prompt.
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
  /** Only the last message of the prompt was kept. */
  partial?: boolean;
  /** Milliseconds since the epoch. */
  startedAt: number;
  /** Milliseconds. */
  latency: number;
  /** Exactly one of the two. */
  response?: RecordedResponse;
  failure?: RecordedFailure;
}

/** Digests of a prompt, 32 hexadecimal digits each. */
export interface PromptDigests {
  system: string;
  tools: string;
  messages: string;
}
