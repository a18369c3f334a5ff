import { Event, EventKind, EventPage, Nullable } from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import type { EventFilter } from "../../../store/event-log.ts";
import { conversation, ofRequest, param } from "../../forwarding/concern.ts";
import { sendJson, toArrayJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import { checkCount, pageKeys, parseEventTimeParam, Time, TimestampOrder } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { readEventTexts } from "../account/event-texts.ts";

const filterKeys = { kind__eq: Type.Optional(EventKind), timestamp__gte: Time, timestamp__lt: Time };
const searchKeys = { ...filterKeys, ...pageKeys, sort_order: TimestampOrder };
const batchKeys = { id: Type.Array(Type.String()) };
const inQuery = { conversation_id__eq: Type.String() };

const CountQuery = Type.Object(filterKeys);
const SearchQuery = Type.Object(searchKeys);
const ConversationPath = Type.Object({ conversation_id: Type.String() });

/**
 * The events of a conversation (app-server.md section 3). The older paths have the conversation in
 * the query (section 9, delta 2). Responds 404 to unknown, malformed and other users' ids.
 */
export function eventRoutes(
  app: App,
  { conversations, events }: Pick<HttpServices, "conversations" | "events">,
): void {
  const find = async (principal: Parameters<typeof requireConversation>[1], id: string) =>
    (await requireConversation(conversations, principal, id)).id;
  const search = (id: string, query: Static<typeof SearchQuery>) => {
    const descending = query.sort_order === "TIMESTAMP_DESC";
    return events.pageJson(id, { ...toFilter(query), descending, pageId: query.page_id, limit: query.limit });
  };
  const batch = async (id: string, ids: string[]) => {
    checkCount(ids, 100);
    return toArrayJson(readEventTexts(events, id, ids));
  };
  const pages = { 200: EventPage };
  const counts = { 200: Type.Integer() };
  const lists = { 200: Type.Array(Nullable(Event)) };
  const summaries = {
    search: "List events",
    count: "Count events",
    batch: "Read events by id; null for unknown ones",
  };

  const route = makeRoute(["events"], { failures: [400, 404, 413] });
  const concerns = ofRequest(({ query }) => conversation(param(query, "conversation_id__eq")));
  const base = "/api/v1/conversation/:conversation_id/events";
  const params = ConversationPath;
  app.get(
    `${base}/search`,
    makeRoute(["events"])(summaries.search, { params, querystring: SearchQuery, response: pages }),
    async ({ principal, params: path, query }, reply) => {
      return sendJson(reply, await search(await find(principal, path.conversation_id), query));
    },
  );
  app.get(
    `${base}/count`,
    makeRoute(["events"])(summaries.count, { params, querystring: CountQuery, response: counts }),
    async ({ principal, params: path, query }) =>
      events.count(await find(principal, path.conversation_id), toFilter(query)),
  );
  app.get(
    base,
    route(summaries.batch, { params, querystring: Type.Object(batchKeys), response: lists }),
    async ({ principal, params: path, query }, reply) => {
      return sendJson(reply, await batch(await find(principal, path.conversation_id), query.id));
    },
  );

  app.get(
    "/api/v1/events/search",
    route(
      summaries.search,
      { querystring: Type.Object({ ...inQuery, ...searchKeys }), response: pages },
      { concerns },
    ),
    async ({ principal, query }, reply) => {
      return sendJson(reply, await search(await find(principal, query.conversation_id__eq), query));
    },
  );
  app.get(
    "/api/v1/events/count",
    route(
      summaries.count,
      { querystring: Type.Object({ ...inQuery, ...filterKeys }), response: counts },
      { concerns },
    ),
    async ({ principal, query }) =>
      events.count(await find(principal, query.conversation_id__eq), toFilter(query)),
  );
  app.get(
    "/api/v1/events",
    route(
      summaries.batch,
      { querystring: Type.Object({ ...inQuery, ...batchKeys }), response: lists },
      { concerns },
    ),
    async ({ principal, query }, reply) => {
      return sendJson(reply, await batch(await find(principal, query.conversation_id__eq), query.id));
    },
  );
}

function toFilter(query: Static<typeof CountQuery>): EventFilter {
  return {
    kind: query.kind__eq,
    timestampGte: parseEventTimeParam(query.timestamp__gte, "timestamp__gte"),
    timestampLt: parseEventTimeParam(query.timestamp__lt, "timestamp__lt"),
  };
}
