import { type CallbackInfo, hexId, isoTime, newId } from "@sandpiper/wire";
import type { CallbackRow, StoredProcessor } from "../store/callback-store.ts";
import { noFailure } from "./delivery-worker.ts";

/**
 * Makes the API resource of a callback. `lastSeq` is the last sequence number of its conversation.
 */
export function present(row: CallbackRow, lastSeq: number): CallbackInfo {
  const { processor } = row;
  const isHook = processor.kind === "WebhookCallbackProcessor";
  return {
    id: hexId(row.id),
    kind: processor.kind === "LoggingCallbackProcessor" ? processor.kind : "WebhookCallbackProcessor",
    url: isHook ? processor.url : null,
    kinds: isHook ? (processor.kinds as CallbackInfo["kinds"]) : null,
    secret_set: isHook && row.secret !== null,
    server_wide: processor.kind === "ServerWebhook",
    status: row.status,
    pending: lastSeq >= row.nextSeq,
    attempts: row.attempts,
    last_error: row.detail,
    next_attempt_at: row.nextAttemptAt === null ? null : isoTime(row.nextAttemptAt),
    created_at: isoTime(row.createdAt),
  };
}

/** Makes the row of an active callback that begins with the conversation's first record. */
export function createRow(userId: string, conversationId: string, processor: StoredProcessor): CallbackRow {
  return {
    id: newId(),
    userId,
    conversationId,
    processor,
    secret: null,
    ...noFailure,
    nextSeq: 1,
    createdAt: Date.now(),
  };
}

/** A conversation has at most one ServerWebhook, which has the conversation's id. */
export function serverRow(userId: string, conversationId: string): CallbackRow {
  return { ...createRow(userId, conversationId, { kind: "ServerWebhook" }), id: conversationId };
}
