import { contentText, type Event } from "@sandpiper/wire";
import type { EventLog, EventQuery } from "../../../store/event-log.ts";
import { type ScanContext, scan } from "./event-scan.ts";

/**
 * The agent's last message to the user (agent-server.md section 3): the later of its last finish
 * message and its last message with text. Empty if there is none.
 */
export async function findFinalResponse(
  events: EventLog,
  id: string,
  who: Pick<ScanContext, "isWanted">,
): Promise<string> {
  const said = await findNewest(events, id, { kind: "MessageEvent" }, who, getAgentMessage);
  // Only events after that message can be later.
  const after = said && { timestampGte: said.event.timestamp };
  const finished = await findNewest(events, id, { kind: "ActionEvent", ...after }, who, getFinishMessage);
  return finished?.text ?? said?.text ?? "";
}

async function findNewest(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  who: Pick<ScanContext, "isWanted">,
  read: (event: Event) => string | undefined,
): Promise<{ event: Event; text: string } | undefined> {
  for (const span of (await events.branch(id)).spans.toReversed()) {
    for await (const json of scan(events, id, { ...query, span, descending: true }, who)) {
      const event = JSON.parse(json) as Event;
      const text = read(event);
      if (text !== undefined) return { event, text };
    }
  }
  return undefined;
}

function getAgentMessage(event: Event): string | undefined {
  if (event.kind !== "MessageEvent" || event.source !== "agent") return undefined;
  return contentText(event.llm_message.content).trim() || undefined;
}

function getFinishMessage(event: Event): string | undefined {
  return event.kind === "ActionEvent" && event.action?.kind === "FinishAction"
    ? event.action.message
    : undefined;
}
