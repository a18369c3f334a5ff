import type { CallbackInfo, CallbackProcessor } from "@sandpiper/wire";
import type { CallbackRow } from "../store/callback-store.ts";
import type { SandboxScope } from "../store/sandbox-scope.ts";

/**
 * Delivers events to callbacks. The log is the queue: every callback has a durable cursor, so
 * events arrive in order and at least once.
 */
export interface Callbacks {
  /** Throws InvalidParameter when the URL of a processor cannot be used. */
  check(processors: readonly CallbackProcessor[]): void;
  /**
   * Makes the records of a new conversation's callbacks, which the caller stores with the
   * conversation or its start: those of the processors and the operator's webhook. Throws
   * InvalidParameter.
   */
  rowsOf(userId: string, conversationId: string, processors: readonly CallbackProcessor[]): CallbackRow[];
  /** Removes the callbacks of a conversation; undelivered events are dropped. */
  drop(conversationId: string): Promise<void>;

  /**
   * Delivers the events that an earlier server or another node has left undelivered in sandboxes.
   */
  adopt(scope: SandboxScope): Promise<void>;
  /**
   * Ends the deliveries for conversations in sandboxes that go to another node, which repeats the
   * deliveries in progress. Never rejects.
   */
  release(sandboxIds: readonly string[]): Promise<void>;

  /** Reports a change without a log record, such as a new title. */
  notifyChange(conversationId: string): void;
  /** Await this before a deletion; the returned function reports the deletion afterwards. */
  notifyDeletion(conversationId: string): Promise<() => void>;

  /** The callbacks of a conversation, oldest first. */
  list(conversationId: string): Promise<CallbackInfo[]>;
  /** Adds a callback for future events. Throws InvalidParameter, TooManyCallbacks. */
  add(userId: string, conversationId: string, processor: CallbackProcessor): Promise<CallbackInfo>;
  /** Retries a callback now, even a failed one. Throws CallbackNotFound. */
  retry(conversationId: string, id: string): Promise<CallbackInfo>;
  /** Throws CallbackNotFound, also for the operator's webhook. */
  remove(conversationId: string, id: string): Promise<void>;
}

/** The processors without secrets, to store them with a start task. */
export function withoutCallbackSecrets(processors: readonly CallbackProcessor[]): CallbackProcessor[] {
  return processors.map((processor) => {
    if (processor.kind !== "WebhookCallbackProcessor") return processor;
    const { secret: _secret, ...rest } = processor;
    return rest;
  });
}
