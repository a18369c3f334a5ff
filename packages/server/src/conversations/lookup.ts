import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";
import { type Custody, makeMoved } from "./custody.ts";

interface ConversationLookupDeps {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get">;
  custody: Pick<Custody, "isReleased">;
}

/** Finds conversations by id and checks what a caller requires of them. */
export class ConversationLookup {
  readonly #deps: ConversationLookupDeps;

  constructor(deps: ConversationLookupDeps) {
    this.#deps = deps;
  }

  /** Throws ConversationNotFound. */
  async require(id: string): Promise<ConversationRow> {
    const row = await this.#deps.store.conversations.get(id);
    if (!row) throw new PlatformError("ConversationUnknown");
    return row;
  }

  /** Throws ConversationNotFound, also for another user's conversation. */
  async requireOwned(userId: string, id: string): Promise<ConversationRow> {
    const row = await this.require(id);
    if (row.userId !== userId) throw new PlatformError("ConversationUnknown");
    return row;
  }

  /**
   * A conversation that this server runs. Throws ConversationNotFound, ConversationExternal,
   * SandboxMoved.
   */
  async requireLocal(id: string): Promise<ConversationRow> {
    const row = await this.require(id);
    requireLocal(row);
    if (this.#deps.custody.isReleased(row.sandboxId)) throw makeMoved();
    return row;
  }

  /**
   * A conversation whose agent can work. Throws ConversationNotFound, ConversationExternal,
   * ConversationArchived, SandboxMoved.
   */
  async requireWithSandbox(id: string): Promise<ConversationRow> {
    const row = await this.requireLocal(id);
    await requireSandbox(this.#deps.sandboxes, row);
    return row;
  }
}

/** Throws ConversationExternal when an agent server inside the sandbox runs the conversation. */
export function requireLocal({ id, config }: Pick<ConversationRow, "id" | "config">): void {
  if (config.external) throw new PlatformError("RunInSandbox", { id: hexId(id) });
}

/**
 * The record of a conversation's sandbox. Throws ConversationArchived when the sandbox is gone: the
 * conversation is then read-only (app-server.md section 4), because no tool can work.
 */
export async function requireSandbox(
  sandboxes: Pick<Sandboxes, "get">,
  { userId, sandboxId }: Pick<ConversationRow, "userId" | "sandboxId">,
): Promise<SandboxRow> {
  const row = await sandboxes.get(userId, sandboxId);
  if (!row) throw new PlatformError("ConversationSandboxGone");
  return row;
}
