import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Store } from "../../store/store.ts";
import type { ConversationModels } from "../agent/conversation-models.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import type { HookSessions } from "./hook-sessions.ts";
import type { Workspaces } from "./workspaces.ts";

/** Time for SessionEnd hooks, ms. */
const timeoutMs = { removal: 10_000, shutdown: 2_000 };

export interface SessionEndsDeps {
  store: Pick<Store, "conversations" | "events">;
  sandboxes: Pick<Sandboxes, "get">;
  workspaces: Pick<Workspaces, "getOrCreate">;
  hooks: Pick<HookSessions, "hasSessionEnd" | "endSession" | "listSessions" | "drop">;
  models: Pick<ConversationModels, "makeOpener">;
  masks: Pick<OutputMasks, "forConversation">;
}

/** Ends the hook sessions of conversations at rest, with their SessionEnd hooks. */
export class SessionEnds {
  readonly #deps: SessionEndsDeps;

  constructor(deps: SessionEndsDeps) {
    this.#deps = deps;
  }

  /** Ends the session of a conversation that is being removed. Never rejects. */
  async remove(conversationId: string): Promise<void> {
    await this.#end(conversationId, timeoutMs.removal).catch(() => {});
    this.#deps.hooks.drop(conversationId);
  }

  /** Ends all sessions at shutdown. Never rejects. */
  async close(): Promise<void> {
    const ends = this.#deps.hooks.listSessions().map((id) => this.#end(id, timeoutMs.shutdown));
    await Promise.allSettled(ends);
  }

  /**
   * Ends the sessions in sandboxes that go to another node. `lost`: the hooks do not run, because
   * that node may be at work in the sandboxes. Never rejects.
   */
  async leave(sandboxIds: ReadonlySet<string>, lost: boolean): Promise<void> {
    const { hooks } = this.#deps;
    const ids = hooks.listSessions(sandboxIds);
    if (!lost) await Promise.allSettled(ids.map((id) => this.#end(id, timeoutMs.shutdown)));
    for (const id of ids) hooks.drop(id);
  }

  /** Runs the SessionEnd hooks, if the conversation's sandbox is running. */
  async #end(conversationId: string, maxMs: number): Promise<void> {
    const { store, sandboxes, workspaces, hooks, models, masks } = this.#deps;
    const row = await store.conversations.get(conversationId);
    if (!row || !(await hooks.hasSessionEnd(row))) return;
    if ((await sandboxes.get(row.userId, row.sandboxId))?.status !== "RUNNING") return;
    const run = {
      sandbox: () => workspaces.getOrCreate(row).sandbox(),
      openModel: models.makeOpener(row),
      mask: () => masks.forConversation(row),
      append: (records: NewRecord[]) => store.events.append(conversationId, records),
      signal: AbortSignal.timeout(maxMs),
    };
    await hooks.endSession(row, run);
  }
}
