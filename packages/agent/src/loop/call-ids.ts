import { type MessageToolCall, newId } from "@sandpiper/wire";

/** Calls with an id each: results are matched by it, so a provider that repeats or omits ids must not confuse them. */
export function withOwnIds(calls: readonly MessageToolCall[]): MessageToolCall[] {
  const ids = new Set<string>();
  return calls.map((call) => {
    const id = call.id && !ids.has(call.id) ? call.id : `call_${newId()}`;
    ids.add(id);
    return id === call.id ? call : { ...call, id };
  });
}
