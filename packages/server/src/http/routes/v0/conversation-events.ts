import { Readable } from "node:stream";
import { Event } from "@sandpiper/wire";
import { Type } from "typebox";
import type { EventLog } from "../../../store/event-log.ts";
import { sendBody, sendJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });
const index = Type.Integer({ minimum: 0, maximum: 1e9 });
/** Maximum events in memory at a time. */
const pageSize = 100;

/** Events over V0 routes: V1 events, whose position from 0 is the V0 event id. */
export function legacyEventRoutes(
  app: App,
  { conversations, events }: Pick<HttpServices, "conversations" | "events">,
): void {
  const route = makeRoute(["legacy conversations"], { errors: "error" });
  const base = "/api/conversations/:conversation_id";

  app.get(
    `${base}/events`,
    route("List events by number, start and end inclusive", {
      params: ConversationPath,
      querystring: Type.Object({
        start_id: Type.Integer({ ...index, default: 0 }),
        end_id: Type.Optional(index),
        reverse: Type.Boolean({ default: false }),
        limit: Type.Integer({ minimum: 1, maximum: 100, default: 20 }),
      }),
      response: { 200: Type.Object({ events: Type.Array(Event), has_more: Type.Boolean() }) },
    }),
    async ({ principal, params, query }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      const count = await events.count(id);
      const end = Math.min(query.end_id ?? count - 1, count - 1);
      const wanted = Math.max(0, end - query.start_id + 1);
      const limit = Math.min(query.limit, wanted);
      const pageId = String(query.reverse ? count - 1 - end : query.start_id);
      const { items } =
        limit > 0 ? await events.search(id, { descending: query.reverse, pageId, limit }) : { items: [] };
      return sendJson(reply, `{"events":[${items.join(",")}],"has_more":${wanted > items.length}}`);
    },
  );
  app.get(
    `${base}/trajectory`,
    {
      exposeHeadRoute: false,
      ...route("Read all events", {
        params: ConversationPath,
        response: { 200: Type.Object({ trajectory: Type.Array(Event) }) },
      }),
    },
    async ({ principal, params }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      reply.type("application/json");
      return sendBody(reply, Readable.from(streamTrajectory(events, id), { objectMode: false }));
    },
  );
}

/** Streams the events that exist at the start. */
async function* streamTrajectory(events: EventLog, id: string): AsyncGenerator<string> {
  const total = await events.count(id);
  yield '{"trajectory":[';
  for (let first = 0; first < total; ) {
    const { items } = await events.search(id, {
      pageId: String(first),
      limit: Math.min(pageSize, total - first),
    });
    if (items.length === 0) break;
    yield (first > 0 ? "," : "") + items.join(",");
    first += items.length;
  }
  yield "]}";
}
