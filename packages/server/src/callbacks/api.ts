import type { CallbackInfo, CallbackProcessor } from "@sandpiper/wire";

/**
 * What happens with the events of conversations beyond storing them. The log is the queue: every callback has a durable cursor in it,
 * so that no event is lost, each arrives at least once, and in order.
 */
export interface Callbacks {
  /** Throws InvalidParameter where an address of a processor cannot be used. */
  check(processors: readonly CallbackProcessor[]): void;
  /**
   * Registers the processors of a start, and the operator's own, from the conversation's first record on. Called for every conversation,
   * also with an empty list, before its first record; the conversation need not exist yet. A second call for a conversation does
   * nothing, so that a start that goes on after a crash can repeat it. Throws InvalidParameter.
   */
  register(userId: string, conversationId: string, processors: readonly CallbackProcessor[]): Promise<void>;
  /** Ends and forgets the callbacks of a conversation; what was not delivered is not delivered any more. */
  drop(conversationId: string): Promise<void>;

  /** Tells of a change of the conversation that is no record of its log, such as that of its title. */
  notifyChange(conversationId: string): void;
  /** To be called before a deletion: gives what tells of it once it is done. */
  notifyDeletion(conversationId: string): () => void;

  /** The callbacks of a conversation, oldest first. */
  list(conversationId: string): CallbackInfo[];
  /** Adds a callback for the events from now on. Throws InvalidParameter, TooManyCallbacks. */
  add(userId: string, conversationId: string, processor: CallbackProcessor): Promise<CallbackInfo>;
  /** Tries a callback again now, also one that was given up. Throws CallbackNotFound. */
  retry(conversationId: string, id: string): Promise<CallbackInfo>;
  /** Throws CallbackNotFound, also for the operator's own. */
  remove(conversationId: string, id: string): Promise<void>;
}

/** The processors as a start task keeps them: without the values of secrets. */
export function withoutCallbackSecrets(processors: readonly CallbackProcessor[]): CallbackProcessor[] {
  return processors.map((processor) => {
    if (processor.kind !== "WebhookCallbackProcessor") return processor;
    const { secret: _secret, ...rest } = processor;
    return rest;
  });
}
