import { type MessageToolCall, newId } from "@sandpiper/wire";

/** Gives each call a unique id: results are matched by id, and providers may repeat or omit ids. */
export function withOwnIds(calls: readonly MessageToolCall[]): MessageToolCall[] {
  const ids = new Set<string>();
  return calls.map((call) => {
    const id = call.id && !ids.has(call.id) ? call.id : `call_${newId()}`;
    ids.add(id);
    return id === call.id ? call : { ...call, id };
  });
}
