/** What users may store, bytes; 0: no limit. */
export interface StorageQuotas {
  /** Events and model calls of a conversation. */
  conversationBytes: number;
  /** Conversations of a user together. */
  userBytes: number;
}
