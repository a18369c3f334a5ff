import { listed } from "@sandpiper/agent/loop/records";
import { condensationFailed } from "@sandpiper/agent/prompt/view";
import { PlatformError } from "@sandpiper/core/errors";
import { hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Runner } from "./runner.ts";

export interface CondenseDeps {
  store: Pick<Store, "conversations" | "events">;
  runner: Pick<Runner, "histories" | "condense">;
}

/**
 * Has the history of a conversation summarised (agent-server.md section 3, condense): a run that goes on does it with its next step, else it is waited for.
 * Too little history is fine. Throws ModelFailed where no summary came of it, and ConversationNotFound for one that was deleted meanwhile.
 */
export async function condense({ store, runner }: CondenseDeps, row: ConversationRow): Promise<void> {
  const { id } = row;
  const request = listed({ kind: "CondensationRequest", source: "environment" });
  if (row.summary.executionStatus === "running") return void (await store.events.append(id, [request]));
  if (!(await runner.histories.canCondense(row))) return;
  const over = Promise.withResolvers<void>();
  // What a sleeping conversation is woken for is over with the summary, or with the error that tells why there is none.
  const unfollow = store.events.follow(id, (records) => {
    for (const { event } of records) {
      if (event.kind === "Condensation") over.resolve();
      if (event.kind !== "ConversationErrorEvent" || event.code !== condensationFailed) continue;
      over.reject(new PlatformError("ModelFailed", event.detail));
    }
  });
  try {
    await store.events.append(id, [request]);
    void runner.condense(id).then(() => over.reject(makeNoSummaryError(store, id)));
    await over.promise;
  } finally {
    unfollow();
  }
}

/** Why a conversation that was woken for a summary rests without one. */
function makeNoSummaryError({ conversations }: CondenseDeps["store"], id: string): PlatformError {
  if (conversations.get(id)) return new PlatformError("ModelFailed", "The summary was interrupted.");
  return new PlatformError("ConversationNotFound", `The conversation ${hexId(id)} does not exist.`);
}
