import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";

/** Conversations by their ids, as what is asked of them needs them. */
export class ConversationLookup {
  readonly #store: { conversations: Pick<Store["conversations"], "get"> };
  readonly #sandboxes: Pick<Sandboxes, "get">;

  constructor({
    store,
    sandboxes,
  }: { store: Pick<Store, "conversations">; sandboxes: Pick<Sandboxes, "get"> }) {
    this.#store = store;
    this.#sandboxes = sandboxes;
  }

  /** Throws ConversationNotFound. */
  require(id: string): ConversationRow {
    const row = this.#store.conversations.get(id);
    if (!row) throw makeNotFoundError(id);
    return row;
  }

  /** Of a user. Throws ConversationNotFound. */
  requireOwned(userId: string, id: string): ConversationRow {
    const row = this.require(id);
    if (row.userId !== userId) throw makeNotFoundError(id);
    return row;
  }

  /** One that this server runs. Throws ConversationNotFound, ConversationExternal. */
  requireLocal(id: string): ConversationRow {
    const row = this.require(id);
    requireLocal(row);
    return row;
  }

  /** One that can work. Throws ConversationNotFound, ConversationExternal, ConversationArchived. */
  requireWithSandbox(id: string): ConversationRow {
    const row = this.requireLocal(id);
    requireSandbox(this.#sandboxes, row);
    return row;
  }
}

function makeNotFoundError(id: string): PlatformError {
  return new PlatformError("ConversationNotFound", `The conversation ${hexId(id)} does not exist.`);
}

/** Throws ConversationExternal where an agent server inside the sandbox runs the conversation: only there it can be worked on. */
export function requireLocal({ id, config }: Pick<ConversationRow, "id" | "config">): void {
  if (!config.external) return;
  throw new PlatformError(
    "ConversationExternal",
    `The conversation ${hexId(id)} is run by an agent server inside its sandbox: here it can only be read.`,
  );
}

/**
 * The record of a conversation's sandbox. Throws ConversationArchived where the sandbox is gone: such a conversation is only read
 * (app-server.md section 4), and a run of it would pay a model for work that no tool can do.
 */
export function requireSandbox(
  sandboxes: Pick<Sandboxes, "get">,
  { userId, sandboxId }: Pick<ConversationRow, "userId" | "sandboxId">,
): SandboxRow {
  const row = sandboxes.get(userId, sandboxId);
  if (row) return row;
  throw new PlatformError(
    "ConversationArchived",
    "The conversation is archived: its sandbox is gone, and only its events are left.",
  );
}
