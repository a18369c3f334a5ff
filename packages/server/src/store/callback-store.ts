import type { SandboxScope } from "./sandbox-scope.ts";

/** A callback of a conversation, with its cursor in the log. */
export interface CallbackRow {
  id: string;
  /** Owner of the conversation. */
  userId: string;
  /** The conversation may not exist yet. */
  conversationId: string;
  processor: StoredProcessor;
  /** The store encrypts it on disk. */
  secret: string | null;
  status: "ACTIVE" | "FAILED";
  /** Why the last attempt failed. */
  detail: string | null;
  /** Sequence number of the first undelivered record. */
  nextSeq: number;
  /** Failed attempts since the last success. */
  attempts: number;
  /** Time of the first of these attempts. */
  failingSince: number | null;
  nextAttemptAt: number | null;
  createdAt: number;
}

/** `ServerWebhook` is the operator's: its URL and secret are in the configuration. */
export type StoredProcessor =
  | { kind: "ServerWebhook" }
  | { kind: "LoggingCallbackProcessor" }
  | { kind: "WebhookCallbackProcessor"; url: string; kinds: string[] | null };

export type CallbackChange = Partial<
  Pick<CallbackRow, "status" | "detail" | "nextSeq" | "attempts" | "failingSince" | "nextAttemptAt">
>;

export interface CallbackStore {
  /** Creates all rows or none. */
  create(rows: readonly CallbackRow[]): Promise<void>;
  get(id: string): Promise<CallbackRow | undefined>;
  /** Oldest first. */
  listByConversation(conversationId: string): Promise<CallbackRow[]>;
  /** Active callbacks of a conversation: id and cursor. */
  listActive(conversationId: string): Promise<{ id: string; nextSeq: number }[]>;
  /** Lists the active callbacks with undelivered records, by default those of all sandboxes. */
  listPending(scope?: SandboxScope): Promise<{ id: string; conversationId: string }[]>;
  /** Updates a callback if it still exists. */
  update(id: string, change: CallbackChange): Promise<void>;
  /** False when there is none. */
  remove(id: string): Promise<boolean>;
  removeByConversation(conversationId: string): Promise<void>;
  /** Adds missing ServerWebhooks, from the next record on, and reactivates failed ones. */
  addServerWebhooks(): Promise<void>;
  /** Removes every ServerWebhook. */
  removeServerWebhooks(): Promise<void>;
}
