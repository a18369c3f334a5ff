import type { NewEvent } from "@sandpiper/wire";

/**
 * The event as it goes over the wire: keys whose value is null or undefined are left out at every depth (events.md section 1,
 * row "nulls"). The value of a state update is free-form and keeps its nulls. Gives a copy; the writer's object is not kept.
 */
export function omitNulls(event: NewEvent): NewEvent {
  const copy = compact(event) as NewEvent;
  if (event.kind === "ConversationStateUpdateEvent") {
    return { ...copy, value: structuredClone(event.value) } as NewEvent;
  }
  return copy;
}

function compact(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(compact);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([, part]) => part !== null && part !== undefined);
  return Object.fromEntries(entries.map(([key, part]) => [key, compact(part)]));
}

/** JSON text of an event from its id, its timestamp, its parent (empty: none), and the JSON text of all its other fields (an object with at least one). */
export function serializeEvent(id: string, timestamp: string, body: string, parent = ""): string {
  const origin = parent === "" ? "" : `"parent_id":${JSON.stringify(parent)},`;
  return `{"id":${JSON.stringify(id)},"timestamp":"${timestamp}",${origin}${body.slice(1)}`;
}
