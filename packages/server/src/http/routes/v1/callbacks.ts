import { CallbackInfo, CallbackProcessor, Success } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });
const CallbackPath = Type.Object({ conversation_id: Type.String(), callback_id: Type.String() });

/**
 * The callbacks of a conversation and their delivery state; an extension of the contract
 * (docs/clients/event-delivery.md).
 */
export function callbackRoutes(
  app: App,
  { conversations, callbacks }: Pick<HttpServices, "conversations" | "callbacks">,
): void {
  const route = makeRoute(["callbacks"], { failures: [404] });
  const base = "/api/v1/app-conversations/:conversation_id/callbacks";
  const find = ({ principal }: FastifyRequest, id: string) =>
    requireConversation(conversations, principal, id);

  app.get(
    base,
    route("List callbacks", { params: ConversationPath, response: { 200: Type.Array(CallbackInfo) } }),
    async (request) => callbacks.list((await find(request, request.params.conversation_id)).id),
  );
  app.post(
    base,
    route(
      "Add a callback for new events",
      { params: ConversationPath, body: CallbackProcessor, response: { 201: CallbackInfo } },
      { failures: [404, 409] },
    ),
    async (request, reply) => {
      const { id, userId } = await find(request, request.params.conversation_id);
      return reply.code(201).send(await callbacks.add(userId, id, request.body));
    },
  );
  app.post(
    `${base}/:callback_id/retry`,
    route("Retry a callback now", { params: CallbackPath, response: { 200: CallbackInfo } }),
    async (request) =>
      callbacks.retry((await find(request, request.params.conversation_id)).id, request.params.callback_id),
  );
  app.delete(
    `${base}/:callback_id`,
    route("Remove a callback", { params: CallbackPath, response: { 200: Success } }),
    async (request) => {
      await callbacks.remove(
        (await find(request, request.params.conversation_id)).id,
        request.params.callback_id,
      );
      return { success: true };
    },
  );
}
