/** A callback of a conversation; the log is its queue. */
export interface CallbackRow {
  id: string;
  /** Owner of the conversation. */
  userId: string;
  /** May not exist yet. */
  conversationId: string;
  processor: StoredProcessor;
  /** Plain here; encrypted on disk by the store. */
  secret: string | null;
  status: "ACTIVE" | "FAILED";
  /** Why the last attempt failed. */
  detail: string | null;
  /** Sequence number of the first record that is not delivered yet. */
  nextSeq: number;
  /** Failed attempts since the last success. */
  attempts: number;
  /** When the first of them was. */
  failingSince: number | null;
  nextAttemptAt: number | null;
  createdAt: number;
}

/** `ServerWebhook` is the operator's own: its address and secret are in the configuration. */
export type StoredProcessor =
  | { kind: "ServerWebhook" }
  | { kind: "LoggingCallbackProcessor" }
  | { kind: "WebhookCallbackProcessor"; url: string; kinds: string[] | null };

export type CallbackChange = Partial<
  Pick<CallbackRow, "status" | "detail" | "nextSeq" | "attempts" | "failingSince" | "nextAttemptAt">
>;

export interface CallbackStore {
  /** All or none. */
  create(rows: readonly CallbackRow[]): Promise<void>;
  get(id: string): CallbackRow | undefined;
  /** Oldest first. */
  listByConversation(conversationId: string): CallbackRow[];
  /** Those of a conversation that are to be delivered to: id and cursor. */
  listActive(conversationId: string): { id: string; nextSeq: number }[];
  /** Every active one whose conversation has records that it was not told of. */
  listPending(): { id: string; conversationId: string }[];
  /** Changes a callback that is there still. */
  update(id: string, change: CallbackChange): Promise<void>;
  /** False where there is none. */
  remove(id: string): Promise<boolean>;
  removeByConversation(conversationId: string): Promise<void>;
  /** Gives every conversation without one a ServerWebhook from its next record on, and makes those that were given up active again. */
  addServerWebhooks(): Promise<void>;
  /** Removes every ServerWebhook. */
  removeServerWebhooks(): Promise<void>;
}
