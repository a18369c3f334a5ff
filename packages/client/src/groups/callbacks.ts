import { type CallOptions, path } from "../connection.ts";
import type { CallbackInfo, CallbackProcessor, Success } from "../types.ts";
import { Group } from "./group.ts";

/** Callbacks: subscriptions that post a conversation's events to another server. */
export class Callbacks extends Group {
  list(conversation: string, options?: CallOptions): Promise<CallbackInfo[]> {
    return this.connection.get(path`/api/v1/app-conversations/${conversation}/callbacks`, {}, options);
  }

  /** Adds a callback, which receives only later events. */
  add(conversation: string, processor: CallbackProcessor, options?: CallOptions): Promise<CallbackInfo> {
    return this.connection.post(
      path`/api/v1/app-conversations/${conversation}/callbacks`,
      processor,
      options,
    );
  }

  /** Delivers at once, also after a callback has failed for good. */
  retry(conversation: string, id: string, options?: CallOptions): Promise<CallbackInfo> {
    const address = path`/api/v1/app-conversations/${conversation}/callbacks/${id}/retry`;
    return this.connection.post(address, undefined, options);
  }

  remove(conversation: string, id: string, options?: CallOptions): Promise<Success> {
    const address = path`/api/v1/app-conversations/${conversation}/callbacks/${id}`;
    return this.connection.json("DELETE", address, options);
  }
}
