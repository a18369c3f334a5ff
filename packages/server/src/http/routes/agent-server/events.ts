import { PlatformError } from "@sandpiper/core/errors";
import { Event, EventPage, Nullable, parseId, StringEnum } from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import type { EventFilter } from "../../../store/event-log.ts";
import { sendJson, toArrayJson, toPageJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import { checkCount, pageKeys, parseEventTimeParam, Time, TimestampOrder } from "../../server/params.ts";
import { readIdList } from "../../server/read-id-list.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { readEventTexts } from "../account/event-texts.ts";
import { resolvePageId, searchWithEventId } from "./event-page.ts";
import { addParentId } from "./event-parent.ts";
import { countScanned, needsScan, scanEvents } from "./event-scan.ts";

const filterKeys = {
  kind: Type.Optional(Type.String({ description: "class name, or the path of the class in the reference" })),
  source: Type.Optional(StringEnum(["agent", "user", "environment", "hook"])),
  body: Type.Optional(Type.String({ maxLength: 1000, description: "text in messages, case-insensitive" })),
  timestamp__gte: Time,
  timestamp__lt: Time,
};
const CountQuery = Type.Object(filterKeys);
const SearchQuery = Type.Object({ ...filterKeys, ...pageKeys, sort_order: TimestampOrder });
const idText = "ids of the events; repeat the key for each; released clients send a JSON list in the body";
const BatchQuery = Type.Object({ ids: Type.Optional(Type.Array(Type.String(), { description: idText })) });
const ConversationPath = Type.Object({ conversation_id: Type.String() });
const EventPath = Type.Object({ conversation_id: Type.String(), event_id: Type.String() });

const maxIds = 1_000;

/**
 * Events in the agent server's lists (agent-server.md section 5). A page id is the first event's
 * id, or a position for scans.
 */
export function agentEventRoutes(
  app: App,
  { conversations, events, longReads }: Pick<HttpServices, "conversations" | "events" | "longReads">,
): void {
  const route = makeRoute(["agent server"], { access: "agent" });
  const base = "/api/conversations/:conversation_id/events";

  app.get(
    `${base}/search`,
    route("List events", {
      params: ConversationPath,
      querystring: SearchQuery,
      response: { 200: EventPage },
    }),
    async ({ principal, params, query }, reply) => {
      const { id, userId } = await requireConversation(conversations, principal, params.conversation_id);
      conversations.live.noteRead(id, "events");
      const descending = query.sort_order === "TIMESTAMP_DESC";
      const scanning = { userId, longReads, isWanted: () => !reply.raw.destroyed };
      const pageId = await resolvePageId(
        events,
        id,
        { ...toFilter(query), descending, pageId: query.page_id },
        query,
        scanning,
      );
      const wanted = { ...toFilter(query), descending, pageId, limit: query.limit };
      const page = needsScan(query)
        ? await scanEvents(events, id, wanted, query, scanning)
        : await searchWithEventId(events, id, wanted);
      return sendJson(reply, toPageJson(page));
    },
  );
  app.get(
    `${base}/count`,
    route("Count events", {
      params: ConversationPath,
      querystring: CountQuery,
      response: { 200: Type.Integer() },
    }),
    async ({ principal, params, query }, reply) => {
      const { id, userId } = await requireConversation(conversations, principal, params.conversation_id);
      if (!needsScan(query)) return events.count(id, toFilter(query));
      return countScanned(events, id, toFilter(query), query, {
        userId,
        longReads,
        isWanted: () => !reply.raw.destroyed,
      });
    },
  );
  app.get(
    base,
    {
      constraints: { view: "agent" },
      ...route(
        "Read events by id; null for unknown ones",
        { params: ConversationPath, querystring: BatchQuery, response: { 200: Type.Array(Nullable(Event)) } },
        { failures: [400, 413] },
      ),
    },
    async (request, reply) => {
      const { id } = await requireConversation(
        conversations,
        request.principal,
        request.params.conversation_id,
      );
      const ids = request.query.ids ?? (await readIdList(request));
      checkCount(ids, maxIds);
      return sendJson(reply, await toArrayJson(readEventTexts(events, id, ids)));
    },
  );
  app.get(
    `${base}/:event_id`,
    route("Read an event", { params: EventPath, response: { 200: Event } }),
    async ({ principal, params }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      const [json] = await events.batch(id, [parseId(params.event_id) ?? params.event_id]);
      if (!json) throw new PlatformError("EventUnknown");
      return sendJson(reply, await addParentId(events, id, json));
    },
  );
}

function toFilter(query: Static<typeof CountQuery>): EventFilter {
  return {
    kind: query.kind?.slice(query.kind.lastIndexOf(".") + 1),
    timestampGte: parseEventTimeParam(query.timestamp__gte, "timestamp__gte"),
    timestampLt: parseEventTimeParam(query.timestamp__lt, "timestamp__lt"),
  };
}
