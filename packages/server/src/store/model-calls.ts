import type { ModelCall } from "@sandpiper/models/recording/model-call";

export interface StoredModelCall extends ModelCall {
  /** Increases with each stored call. */
  number: number;
  /** Sequence number of the last record when it was stored, including the call's own records. */
  storedSeq: number;
}

/** Model calls, written by `EventLog.append` and removed with their conversation. */
export interface ModelCallStore {
  /**
   * Calls after a number, in the order of their ends; a page of long calls has fewer than `limit`.
   */
  listByConversation(conversationId: string, afterNumber: number, limit: number): Promise<StoredModelCall[]>;
  /** Digest of the tools of the agent's last call, if any. */
  lastTools(conversationId: string): Promise<string | undefined>;
}
