/**
 * A copy of the event without null and undefined fields at any depth (events.md section 1, row
 * "nulls"). The free-form value of a state update keeps its nulls.
 */
export function omitNulls<E extends { kind: string; value?: unknown }>(event: E): E {
  const copy = compact(event) as E;
  return event.kind === "ConversationStateUpdateEvent"
    ? { ...copy, value: structuredClone(event.value) }
    : copy;
}

function compact(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(compact);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([, part]) => part !== null && part !== undefined);
  return Object.fromEntries(entries.map(([key, part]) => [key, compact(part)]));
}

/** The JSON of an event; `body` is the JSON object of its other fields, at least one. */
export function serializeEvent(id: string, timestamp: string, body: string, parent = ""): string {
  const origin = parent === "" ? "" : `"parent_id":${JSON.stringify(parent)},`;
  return `{"id":${JSON.stringify(id)},"timestamp":"${timestamp}",${origin}${body.slice(1)}`;
}
