import type { ConversationInfo, Event } from "@sandpiper/wire";
import type { Client } from "./client.ts";

/** The events of a conversation, and the ids of those that were not taken back. */
export interface Branch {
  events: Event[];
  current: ReadonlySet<string>;
}

export async function readBranch(client: Pick<Client, "events" | "json">, id: string): Promise<Branch> {
  const events = await client.events(id);
  const { leaf_event_id: leaf } = await client.json<Pick<ConversationInfo, "leaf_event_id">>(
    "GET",
    `/api/conversations/${id}`,
  );
  return { events, current: listCurrent(events, leaf) };
}

/** Before the first move no event names its parent: it is the one before. */
export function listCurrent(
  events: readonly Pick<Event, "id" | "parent_id">[],
  leaf: string | null,
): Set<string> {
  const positions = new Map(events.map(({ id }, position) => [id, position]));
  const current = new Set<string>();
  let position = leaf === null ? -1 : (positions.get(leaf) ?? events.length - 1);
  while (position >= 0 && !current.has(events[position]!.id)) {
    const { id, parent_id: parent } = events[position]!;
    current.add(id);
    position = parent === undefined || parent === null ? position - 1 : (positions.get(parent) ?? -1);
  }
  return current;
}
