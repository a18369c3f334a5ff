import { contentText, type Event } from "@sandpiper/wire";
import type { EventLog, EventQuery } from "../../../store/event-log.ts";
import { type Scanning, scanned } from "./event-scan.ts";

/**
 * The agent's last message to the user (agent-server.md section 3): the later of its last finish
 * message and its last message with text. Empty if there is none.
 */
export async function finalResponse(
  events: EventLog,
  id: string,
  who: Pick<Scanning, "isWanted">,
): Promise<string> {
  const said = await newest(events, id, { kind: "MessageEvent" }, who, saidBy);
  // Only events after that message can be later.
  const after = said && { timestampGte: said.event.timestamp };
  const finished = await newest(events, id, { kind: "ActionEvent", ...after }, who, finishedWith);
  return finished?.text ?? said?.text ?? "";
}

async function newest(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  who: Pick<Scanning, "isWanted">,
  read: (event: Event) => string | undefined,
): Promise<{ event: Event; text: string } | undefined> {
  for (const span of events.branch(id).spans.toReversed()) {
    for await (const json of scanned(events, id, { ...query, span, descending: true }, who)) {
      const event = JSON.parse(json) as Event;
      const text = read(event);
      if (text !== undefined) return { event, text };
    }
  }
  return undefined;
}

function saidBy(event: Event): string | undefined {
  if (event.kind !== "MessageEvent" || event.source !== "agent") return undefined;
  return contentText(event.llm_message.content).trim() || undefined;
}

function finishedWith(event: Event): string | undefined {
  return event.kind === "ActionEvent" && event.action?.kind === "FinishAction"
    ? event.action.message
    : undefined;
}
