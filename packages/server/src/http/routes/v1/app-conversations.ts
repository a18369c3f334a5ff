import { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import {
  AppConversation,
  AppConversationPage,
  AppConversationStartRequest,
  AppConversationStartTask,
  AppConversationUpdateRequest,
  Nullable,
  parseId,
  Success,
  startExamples,
} from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import type { ConversationFilter } from "../../../store/conversation-store.ts";
import type { Viewer } from "../../../users/api.ts";
import { conversation, ofBody, param, sandbox } from "../../forwarding/concern.ts";
import { sendBody, sendJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import { Id, pageKeys, pageRequest, parseIds, parseTimeParam, Time } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { normalizeSandboxId } from "./sandboxes.ts";

const filterKeys = {
  title__contains: Type.Optional(Type.String()),
  created_at__gte: Time,
  created_at__lt: Time,
  updated_at__gte: Time,
  updated_at__lt: Time,
  sandbox_id__eq: Type.Optional(Type.String()),
};
const FilterQuery = Type.Object(filterKeys);
const SearchQuery = Type.Object({
  ...filterKeys,
  ...pageKeys,
  include_sub_conversations: Type.Optional(Type.Boolean({ default: false })),
});
const ListQuery = Type.Object({ ...SearchQuery.properties, ids: Type.Optional(Type.Array(Id)) });
const StartBody = Type.Object(AppConversationStartRequest.properties, {
  default: {},
  examples: startExamples,
});
/** The sandbox that a start names, or that of the parent conversation, or a shared or new one. */
const sandboxOfStart = ofBody(
  (body) =>
    sandbox(param(body, "sandbox_id")) ??
    conversation(param(body, "parent_conversation_id")) ?? { start: body as AppConversationStartRequest },
);
/** Lists are read from the store. */
const stored = { concerns: "any node" } as const;
const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** Conversations: start, lists, title, deletion (app-server.md section 2). */
export function appConversationRoutes(
  app: App,
  { conversations }: Pick<HttpServices, "conversations">,
): void {
  const route = makeRoute(["app conversations"]);
  const search = (viewer: Viewer, query: Static<typeof SearchQuery>) =>
    conversations.reads.searchJson(
      {
        ...toFilter(viewer.userId, query),
        includeSubConversations: query.include_sub_conversations ?? false,
      },
      pageRequest(query),
      viewer,
    );

  app.post(
    "/api/v1/app-conversations",
    route(
      "Start a conversation; returns its start task",
      { body: StartBody, response: { 200: AppConversationStartTask } },
      { longBody: true, concerns: sandboxOfStart, failures: [404, 409, 503] },
    ),
    (request) => conversations.starts.start(request.principal.userId, request.body),
  );
  app.post(
    "/api/v1/app-conversations/stream-start",
    route(
      "Start a conversation; streams an array with its start task in each state",
      { body: StartBody, response: { 200: Type.Array(AppConversationStartTask) } },
      { longBody: true, concerns: sandboxOfStart, failures: [404, 409, 503] },
    ),
    async (request, reply) => {
      const tasks = await conversations.starts.startStream(request.principal.userId, request.body);
      const stream = Readable.from(streamArray(tasks), { objectMode: false });
      return sendBody(reply.type("application/json"), stream);
    },
  );
  app.get(
    "/api/v1/app-conversations/search",
    route(
      "List conversations, newest first",
      { querystring: SearchQuery, response: { 200: AppConversationPage } },
      stored,
    ),
    async (request, reply) => {
      return sendJson(reply, await search(request.principal, request.query));
    },
  );
  app.get(
    "/api/v1/app-conversations/count",
    route("Count conversations", { querystring: FilterQuery, response: { 200: Type.Integer() } }, stored),
    (request) => {
      // The count includes sub-conversations, as documented.
      const filter = { ...toFilter(request.principal.userId, request.query), includeSubConversations: true };
      return conversations.reads.count(filter);
    },
  );
  app.get(
    "/api/v1/app-conversations",
    route(
      "With ids: read these, null for unknown ones; without: list like search",
      {
        querystring: ListQuery,
        response: { 200: Type.Union([Type.Array(Nullable(AppConversation)), AppConversationPage]) },
      },
      { ...stored, failures: [400] },
    ),
    async (request, reply) => {
      const { ids } = request.query;
      const { principal } = request;
      if (ids === undefined) return sendJson(reply, await search(principal, request.query));
      return reply.send(await conversations.reads.batch(principal, parseIds(ids, 99)));
    },
  );
  app.patch(
    "/api/v1/app-conversations/:conversation_id",
    route("Change title, publicity, repository, branch or provider; null clears", {
      params: ConversationPath,
      body: AppConversationUpdateRequest,
      response: { 200: AppConversation },
    }),
    async (request) => {
      const id = parseId(request.params.conversation_id);
      const { principal } = request;
      if (id === undefined || !(await conversations.reads.get(principal.userId, id))) {
        throw new PlatformError("AppConversationUnknown");
      }
      return conversations.update(principal, id, request.body);
    },
  );
  app.delete(
    "/api/v1/app-conversations/:conversation_id",
    route("Delete a conversation", { params: ConversationPath, response: { 200: Success } }),
    async (request) => {
      const { userId } = request.principal;
      const [id] = parseIds([request.params.conversation_id], 1);
      if (!(await conversations.reads.get(userId, id!))) throw new PlatformError("ConversationUnknown");
      await conversations.remove(userId, id!);
      return { success: true };
    },
  );
}

/** Streams a JSON array, one item per line. */
async function* streamArray(items: AsyncIterable<unknown>): AsyncGenerator<string> {
  let before = "[\n";
  for await (const item of items) {
    yield before + JSON.stringify(item);
    before = ",\n";
  }
  yield "\n]";
}

function toFilter(userId: string, query: Static<typeof FilterQuery>): ConversationFilter {
  return {
    userId,
    titleContains: query.title__contains,
    createdAtGte: parseTimeParam(query.created_at__gte, "created_at__gte"),
    createdAtLt: parseTimeParam(query.created_at__lt, "created_at__lt"),
    updatedAtGte: parseTimeParam(query.updated_at__gte, "updated_at__gte"),
    updatedAtLt: parseTimeParam(query.updated_at__lt, "updated_at__lt"),
    sandboxId: query.sandbox_id__eq === undefined ? undefined : normalizeSandboxId(query.sandbox_id__eq),
  };
}
