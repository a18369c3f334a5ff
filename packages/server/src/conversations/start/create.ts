import { PlatformError } from "@sandpiper/core/errors";
import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { StartConversationRequest } from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { ClientSecrets } from "../agent/client-secrets.ts";
import type { PendingMessages } from "../commands/pending.ts";
import { removeWorktree } from "../project/worktree.ts";
import { parseOrCreateId } from "./checks.ts";
import type { CreationPlans, SandboxTarget } from "./creation-plans.ts";

export interface ConversationCreatorDeps {
  store: Pick<Store, "conversations">;
  callbacks: Pick<Callbacks, "rowsOf">;
  sandboxes: Pick<Sandboxes, "get" | "running">;
  secrets: Pick<ClientSecrets, "makeRow">;
  plans: CreationPlans;
  pending: Pick<PendingMessages, "deliver" | "deliverFirst">;
}

/** Creates conversations in existing sandboxes. */
export class ConversationCreator {
  readonly #deps: ConversationCreatorDeps;

  constructor(deps: ConversationCreatorDeps) {
    this.#deps = deps;
  }

  /**
   * Creates a conversation from a full agent, agent settings or an agent profile. A taken id of the
   * same sandbox returns that conversation unchanged, with `created` false. Throws
   * ConversationExists and what `CreationPlans.plan` throws; nothing is stored then.
   */
  async create(
    target: SandboxTarget,
    request: StartConversationRequest,
    trace: TraceContext | undefined,
  ): Promise<{ row: ConversationRow; created: boolean }> {
    const { store, callbacks, sandboxes, secrets, plans, pending } = this.#deps;
    const { userId, sandboxId } = target;
    const id = parseOrCreateId(request.conversation_id, "conversation_id");
    const existing = await store.conversations.get(id);
    if (existing?.userId === userId && existing.sandboxId === sandboxId) {
      // The first attempt may have stored the message without sending it.
      await pending.deliver(id);
      return { row: (await store.conversations.get(id)) ?? existing, created: false };
    }
    if (existing) throw new PlatformError("ConversationIdTaken", { id });
    const { row, document, secrets: given } = await plans.plan(id, target, request);
    if (trace) row.config.trace = trace;
    try {
      const scope = row.config.launchedProfile?.secretRefs;
      const place = { userId, conversationId: id, sandboxId };
      row.secrets = secrets.makeRow(place, given.values, given.sources, scope);
      row.callbacks = callbacks.rowsOf(userId, id, []);
      await store.conversations.create(row, document);
    } catch (error) {
      await removeWorktree({ store, sandboxes }, target, row.config.worktree);
      throw error;
    }
    const sender = request.initial_message?.sender ?? undefined;
    if (row.message) await pending.deliverFirst(id, row.message, sender);
    return { row: (await store.conversations.get(id))!, created: true };
  }
}
