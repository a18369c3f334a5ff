import { listed } from "@sandpiper/agent/loop/records";
import { PlatformError } from "@sandpiper/core/errors";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Histories } from "./histories.ts";
import type { Runner } from "./runner.ts";

interface CondensingDeps {
  store: Pick<Store, "conversations" | "events">;
  histories: Pick<Histories, "canCondense">;
  runner: Pick<Runner, "condense">;
}

/**
 * Condenses the history (agent-server.md section 3, condense): a running conversation does so with
 * its next step, a sleeping one is woken and awaited. Does nothing when the history is short.
 * Throws what the model call throws, BudgetReached, and ConversationNotFound when it is deleted
 * meanwhile.
 */
export async function condense(
  { store, histories, runner }: CondensingDeps,
  row: ConversationRow,
): Promise<void> {
  const { id } = row;
  const request = listed({ kind: "CondensationRequest", source: "environment" });
  if (row.summary.executionStatus === "running") return void (await store.events.append(id, [request]));
  if (!(await histories.canCondense(row))) return;
  const over = Promise.withResolvers<void>();
  // The run ends with the summary, or with the reason why there is none.
  const unfollow = store.events.follow(id, (records) => {
    for (const { event } of records) {
      if (event.kind === "Condensation") over.resolve();
    }
  });
  try {
    await store.events.append(id, [request]);
    runner
      .condense(id)
      .then(async (failure) => {
        if (failure) throw failure;
        const isKnown = (await store.conversations.get(id)) !== undefined;
        throw new PlatformError(isKnown ? "SummaryInterrupted" : "ConversationUnknown");
      })
      .catch(over.reject);
    await over.promise;
  } finally {
    unfollow();
  }
}
