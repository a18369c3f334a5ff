import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { type Json, type TestPlatform, until } from "./platform.ts";
import { finish } from "./script.ts";

/**
 * A model that makes the tool calls of the user's message, which is a JSON array, and then
 * finishes.
 */
export async function startCallModel(): Promise<ModelServer> {
  return await startModelServer(({ messages }) => {
    const isTurn = ({ role, text }: (typeof messages)[number]) => role === "user" && text.startsWith("[");
    const begin = messages.findLastIndex(isTurn);
    const calls = JSON.parse(messages[begin]!.text);
    const call = calls[messages.slice(begin).filter(({ role }) => role === "tool").length];
    return call ? reply.toolCalls([call]) : finish("Done.");
  });
}

/** Resolves with the observations and errors of all turns once this many turns have finished. */
export async function awaitResults(call: TestPlatform["call"], id: string, turns: number): Promise<Json[]> {
  const items: Json[] = await until(async () => {
    const { body } = await call("GET", `/api/v1/conversation/${id}/events/search?limit=100`);
    const done = body.items.filter(({ observation }: Json) => observation?.kind === "FinishObservation");
    return done.length === turns ? body.items : undefined;
  });
  return items.filter(({ kind }) => kind === "ObservationEvent" || kind === "AgentErrorEvent");
}

/** The text of a result. */
export const textOf = ({ observation, error }: Json): string =>
  error ?? observation.content.map(({ text }: Json) => text).join("\n");

/** Sends a message that begins another turn. Throws when the server refuses the message. */
export async function sendCalls(call: TestPlatform["call"], id: string, calls: object[]): Promise<void> {
  const content = [{ type: "text", text: JSON.stringify(calls) }];
  const body = { content, run: true, role: "user" };
  const sent = await call("POST", `/api/v1/app-conversations/${id}/send-message`, body);
  if (sent.status >= 300) throw new Error(JSON.stringify(sent));
}
