import type { MessageEvent } from "@sandpiper/wire";
import type { Span } from "../../store/branch.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { EventLog } from "../../store/event-log.ts";

/** Messages per page; other work runs between two pages. */
const pageSize = 100;

/** Id of the event that the next event follows; undefined when there is none. */
export async function getLeafId(
  events: EventLog,
  { id, head }: Pick<ConversationRow, "id" | "head">,
): Promise<string | undefined> {
  if (head !== null) return head || undefined;
  const [json] = (await events.search(id, { descending: true, limit: 1 })).items;
  return json ? (JSON.parse(json) as { id: string }).id : undefined;
}

/** Names of the skills that the messages in these spans activated. */
export async function collectSkills(events: EventLog, id: string, spans: readonly Span[]): Promise<string[]> {
  const names = new Set<string>();
  for (const span of spans) {
    for (let pageId: string | null = "0"; pageId !== null; ) {
      const page: { items: string[]; nextPageId: string | null } = await events.search(id, {
        kind: "MessageEvent",
        span,
        pageId,
        limit: pageSize,
      });
      for (const json of page.items)
        for (const name of (JSON.parse(json) as MessageEvent).activated_skills) names.add(name);
      pageId = page.nextPageId;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  return [...names];
}
