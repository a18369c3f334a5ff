import { PlatformError } from "@sandpiper/core/errors";
import {
  type AppConversationStartRequest,
  ConversationInfo,
  ConversationResponse,
  hexId,
  InitSessionRequest,
  LegacyConversationPage,
  Nullable,
  newId,
  parseId,
  StringEnum,
  triggers,
  UpdateConversationRequest,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { ofBody } from "../../forwarding/concern.ts";
import { sendJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import { Id, makePageKeys, pageRequest } from "../../server/params.ts";
import type { Principal } from "../../server/principal.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { toLegacy } from "../agent-server/conversation-info.ts";
import { readConversationBatch } from "../agent-server/conversation-lists.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });
const pageKeys = makePageKeys(20);
const repository = Type.Optional(Type.String({ maxLength: 512 }));
const Trigger = StringEnum(triggers);
/** The id in the body is the new conversation's. */
const sandboxOfStart = ofBody((body) => ({ start: toSource(body as InitSessionRequest) }));
const ListQuery = Type.Object({
  ...pageKeys,
  selected_repository: repository,
  conversation_trigger: Type.Optional(Trigger),
  ids: Type.Optional(Type.Array(Id, { description: "read these instead, in the agent server's shape" })),
});

/**
 * V0 routes that released clients still call (legacy-gui.md sections 4.3, 7.4 and 8), over V1
 * conversations.
 */
export function legacyConversationRoutes(
  app: App,
  services: Pick<HttpServices, "conversations" | "longReads">,
): void {
  const { conversations } = services;
  const route = makeRoute(["legacy conversations"]);
  const errors = "error";

  const list = async (
    principal: Principal,
    query: { page_id?: string; limit: number; selected_repository?: string },
    trigger: string | undefined,
  ) => {
    const { selected_repository: selectedRepository } = query;
    const filter = { userId: principal.userId, includeSubConversations: false, selectedRepository, trigger };
    const { items, nextPageId } = await conversations.reads.search(filter, pageRequest(query), principal);
    return { results: items.map((item) => toLegacy(conversations, item)), next_page_id: nextPageId };
  };

  app.get(
    "/api/conversations",
    route(
      "List conversations, newest first; with ids: read these, null for unknown ones",
      {
        querystring: ListQuery,
        response: { 200: Type.Union([LegacyConversationPage, Type.Array(Nullable(ConversationInfo))]) },
      },
      { errors, failures: [413] },
    ),
    async ({ principal, query }, reply) => {
      if (query.ids === undefined) return list(principal, query, query.conversation_trigger);
      sendJson(reply, await readConversationBatch(services, principal, query.ids));
      return reply;
    },
  );
  app.get(
    "/api/microagent-management/conversations",
    route(
      "List the conversations that were started to write a microagent",
      {
        querystring: Type.Object({ ...pageKeys, selected_repository: repository }),
        response: { 200: LegacyConversationPage },
      },
      { errors },
    ),
    ({ principal, query }) => list(principal, query, "microagent_management"),
  );
  app.post(
    "/api/conversations",
    route(
      "Start a conversation, which can be read immediately",
      {
        body: Type.Object(InitSessionRequest.properties, { default: {} }),
        response: { 200: ConversationResponse },
      },
      { longBody: true, errors, failures: [404, 409, 503], concerns: sandboxOfStart },
    ),
    async ({ principal, body }) => {
      const request = toStartRequest(body);
      await conversations.starts.start(principal.userId, request);
      const conversation_id = hexId(request.conversation_id!);
      return { status: "ok", conversation_id, message: null, conversation_status: "STARTING" as const };
    },
  );
  app.patch(
    "/api/conversations/:conversation_id",
    route(
      "Change the title",
      { params: ConversationPath, body: UpdateConversationRequest, response: { 200: Type.Boolean() } },
      { errors },
    ),
    async ({ principal, params, body }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      await conversations.update(principal, id, { title: body.title });
      sendJson(reply, "true");
      return reply;
    },
  );
  app.delete(
    "/api/conversations/:conversation_id",
    route(
      "Delete a conversation",
      { params: ConversationPath, response: { 200: Type.Boolean() } },
      { errors },
    ),
    async ({ principal, params }, reply) => {
      const { id, userId } = await requireConversation(conversations, principal, params.conversation_id);
      await conversations.remove(userId, id);
      sendJson(reply, "true");
      return reply;
    },
  );
}

/**
 * Converts a V0 start request to V1. Chooses the id, because the V0 response contains it. Throws
 * InvalidParameter.
 */
function toStartRequest(body: InitSessionRequest): AppConversationStartRequest {
  if (body.agent !== undefined || body.workspace !== undefined) {
    throw new PlatformError("V0StartUnsupported");
  }
  if (body.replay_json) throw new PlatformError("ReplayUnsupported");
  const id = body.conversation_id ? parseId(body.conversation_id) : newId();
  if (!id) throw new PlatformError("ConversationIdInvalid");
  const { create_microagent: microagent, initial_user_msg: text, image_urls: images } = body;
  const content: NonNullable<AppConversationStartRequest["initial_message"]>["content"] = [];
  if (text) content.push({ type: "text", text });
  if (images && images.length > 0) content.push({ type: "image", image_urls: images });
  return {
    ...toSource(body),
    conversation_id: id,
    selected_branch: body.selected_branch ?? null,
    system_message_suffix: body.conversation_instructions ?? null,
    title: microagent?.title ?? null,
    trigger: microagent ? "microagent_management" : body.suggested_task ? "suggested_task" : "gui",
    ...(content.length > 0 && { initial_message: { content } }),
  };
}

/** What a V0 start request clones. */
function toSource({ repository, git_provider, suggested_task, create_microagent }: InitSessionRequest) {
  return {
    selected_repository: repository ?? create_microagent?.repo ?? null,
    git_provider: git_provider ?? create_microagent?.git_provider ?? null,
    suggested_task: suggested_task ?? null,
  };
}
