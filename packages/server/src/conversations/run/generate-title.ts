import { PlatformError } from "@sandpiper/core/errors";
import { contentText, type Event, type GivenLlm } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { EventLog } from "../../store/event-log.ts";
import type { SideCalls } from "./side-calls.ts";
import { getTitleText, parseTitle, titleInstructions } from "./titles.ts";

export interface GenerateTitleDeps {
  store: { events: Pick<EventLog, "branch" | "search"> };
  sideCalls: Pick<SideCalls, "askWithoutHistory">;
}

/**
 * A title of at most `max` characters for the first user message, by the client's model or the
 * conversation's own (agent-server.md sections 11 and 12); the cut message when the model fails.
 * Stores only the cost. Throws BadRequest before the first message.
 */
export async function generateTitle(
  { store, sideCalls }: GenerateTitleDeps,
  row: ConversationRow,
  { max, llm }: { max: number; llm?: GivenLlm | undefined },
): Promise<string> {
  const message = firstMessage(store.events, row.id);
  if (message === undefined) throw new PlatformError("NoMessageForTitle");
  const answer = await sideCalls
    .askWithoutHistory(row, "title", titleInstructions(max), message, llm)
    .catch((error: unknown) => {
      if (error instanceof PlatformError && error.code === "BudgetReached") throw error;
      return "";
    });
  return parseTitle(answer, max) ?? parseTitle(message, max)!;
}

/** The first text of the user on the active branch. */
function firstMessage(events: GenerateTitleDeps["store"]["events"], id: string): string | undefined {
  for (const span of events.branch(id).spans) {
    for (const json of events.search(id, { kind: "MessageEvent", limit: 20, span }).items) {
      const event = JSON.parse(json) as Event;
      if (event.kind !== "MessageEvent" || event.source !== "user") continue;
      if (contentText(event.llm_message.content).trim()) return getTitleText(event.llm_message.content);
    }
  }
  return undefined;
}
