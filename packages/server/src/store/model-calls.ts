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

export interface StoredModelCall extends ModelCall {
  /** Increases with each call that is stored. */
  number: number;
  /** Number of the last record when it was stored, those included that came of it. */
  storedSeq: number;
}

/** The calls of models in conversations; they are written by `EventLog.append` and go with their conversation. */
export interface ModelCallStore {
  /** Calls after a number, in the order in which they ended; fewer than `limit` also where they are long. */
  of(conversationId: string, afterNumber: number, limit: number): StoredModelCall[];
  /** Digest of the tools of the agent's last call; undefined where there is none. */
  lastTools(conversationId: string): string | undefined;
}
