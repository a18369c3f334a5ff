import type { ModelCall } from "@sandpiper/models/recording/model-call";

export interface StoredModelCall extends ModelCall {
  /** Increases with each call that is stored. */
  number: number;
  /** Number of the last record when it was stored, those included that came of it. */
  storedSeq: number;
}

/** The calls of models in conversations; they are written by `EventLog.append` and go with their conversation. */
export interface ModelCallStore {
  /** Calls after a number, in the order in which they ended; fewer than `limit` also where they are long. */
  listByConversation(conversationId: string, afterNumber: number, limit: number): StoredModelCall[];
  /** Digest of the tools of the agent's last call; undefined where there is none. */
  lastTools(conversationId: string): string | undefined;
}
