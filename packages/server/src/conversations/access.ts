import { hexId } from "@sandpiper/wire";
import { PlatformError } from "../errors.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";
import { requireSandbox } from "./archived.ts";
import { refuseExternal } from "./external.ts";

/** Conversations by their ids, as what is asked of them needs them. */
export class Access {
  readonly #store: { conversations: Pick<Store["conversations"], "get"> };
  readonly #sandboxes: Pick<Sandboxes, "get">;

  constructor({ store, sandboxes }: { store: Pick<Store, "conversations">; sandboxes: Pick<Sandboxes, "get"> }) {
    this.#store = store;
    this.#sandboxes = sandboxes;
  }

  /** Throws ConversationNotFound. */
  known(id: string): ConversationRow {
    const row = this.#store.conversations.get(id);
    if (!row) throw missing(id);
    return row;
  }

  /** Of a user. Throws ConversationNotFound. */
  owned(userId: string, id: string): ConversationRow {
    const row = this.known(id);
    if (row.userId !== userId) throw missing(id);
    return row;
  }

  /** One that this server runs. Throws ConversationNotFound, ConversationExternal. */
  runnable(id: string): ConversationRow {
    const row = this.known(id);
    refuseExternal(row);
    return row;
  }

  /** One that can work. Throws ConversationNotFound, ConversationExternal, ConversationArchived. */
  workable(id: string): ConversationRow {
    const row = this.runnable(id);
    requireSandbox(this.#sandboxes, row);
    return row;
  }
}

function missing(id: string): PlatformError {
  return new PlatformError("ConversationNotFound", `The conversation ${hexId(id)} does not exist.`);
}
