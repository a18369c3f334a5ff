import {
  AppConversationStartTask,
  AppConversationStartTaskPage,
  Nullable,
  StringEnum,
} from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import type { StartTaskFilter } from "../../../store/start-task-store.ts";
import { sendJson, toArrayJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import {
  Id,
  pageKeys,
  pageRequest,
  parseIds,
  parseOptionalId,
  parseTimeParam,
  Time,
  toWirePage,
} from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

const filterKeys = { conversation_id__eq: Type.Optional(Id), created_at__gte: Time };
const FilterQuery = Type.Object(filterKeys);
const SearchQuery = Type.Object({
  ...filterKeys,
  ...pageKeys,
  sort_order: StringEnum(["CREATED_AT", "CREATED_AT_DESC", "UPDATED_AT", "UPDATED_AT_DESC"], {
    default: "CREATED_AT_DESC",
  }),
});

/** Progress of conversation starts (app-server.md section 2.4). */
export function startTaskRoutes(app: App, { conversations }: Pick<HttpServices, "conversations">): void {
  const route = makeRoute(["start tasks"], { concerns: "any node" });
  const { tasks: startTasks } = conversations.starts;
  async function* texts(userId: string, ids: string[]) {
    for (const id of ids) yield JSON.stringify((await startTasks.batch(userId, [id]))[0] ?? null);
  }

  app.get(
    "/api/v1/app-conversations/start-tasks/search",
    route("List start tasks", { querystring: SearchQuery, response: { 200: AppConversationStartTaskPage } }),
    async (request) => {
      const { query } = request;
      const page = { ...pageRequest(query), sort: query.sort_order };
      return toWirePage(await startTasks.search(toFilter(request.principal.userId, query), page));
    },
  );
  app.get(
    "/api/v1/app-conversations/start-tasks/count",
    route("Count start tasks", { querystring: FilterQuery, response: { 200: Type.Integer() } }),
    (request) => startTasks.count(toFilter(request.principal.userId, request.query)),
  );
  app.get(
    "/api/v1/app-conversations/start-tasks",
    route(
      "Read start tasks by id; null for unknown ones",
      {
        querystring: Type.Object({ ids: Type.Array(Id) }),
        response: { 200: Type.Array(Nullable(AppConversationStartTask)) },
      },
      { failures: [400, 413] },
    ),
    async (request, reply) => {
      const { userId } = request.principal;
      return sendJson(reply, await toArrayJson(texts(userId, parseIds(request.query.ids, 100))));
    },
  );
}

function toFilter(userId: string, query: Static<typeof FilterQuery>): StartTaskFilter {
  return {
    userId,
    conversationId: parseOptionalId(query.conversation_id__eq, "query", "conversation_id__eq"),
    createdAtGte: parseTimeParam(query.created_at__gte, "created_at__gte"),
  };
}
