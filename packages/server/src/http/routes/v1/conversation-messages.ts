import {
  AppSendMessageRequest,
  AppSendMessageResponse,
  PendingMessageRequest,
  PendingMessageResponse,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { parseContent } from "../../../conversations/log/messages.ts";
import { conversation, ofRequest, param } from "../../forwarding/concern.ts";
import { parseOptionalId } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { requireRunning } from "./conversation-sandbox.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

const target = ofRequest(({ params }) => {
  const text = param(params, "conversation_id");
  return text?.startsWith("task-") ? { task: text.slice("task-".length) } : conversation(text);
});

/**
 * Messages to a running conversation, or queued for one that is starting (app-server.md sections
 * 2.7 and 2.8).
 */
export function conversationMessageRoutes(
  app: App,
  { conversations, sandboxes }: Pick<HttpServices, "conversations" | "sandboxes">,
): void {
  app.post(
    "/api/v1/app-conversations/:conversation_id/send-message",
    {
      config: { longBody: true, failures: [409, 410, 503] },
      schema: {
        tags: ["app conversations"],
        summary:
          "Send a message to a conversation with a running sandbox; starts the agent unless run is false",
        params: ConversationPath,
        body: AppSendMessageRequest,
        response: { 200: AppSendMessageResponse },
      },
    },
    async (request) => {
      const row = await requireConversation(conversations, request.principal, request.params.conversation_id);
      const { status } = await requireRunning(sandboxes, row);
      const { content, run = true, message_id: messageId } = request.body;
      const eventId = parseOptionalId(messageId, "body", "message_id");
      const parts = parseContent(content);
      await (eventId === undefined
        ? conversations.commands.send(row.id, parts, { run })
        : conversations.commands.sendOnce(row.id, parts, { run, eventId }));
      return { success: true, sandbox_status: status, message: null };
    },
  );
  app.post(
    "/api/v1/conversations/:conversation_id/pending-messages",
    {
      config: { longBody: true, failures: [409, 410], invalidInput: 400, concerns: target },
      schema: {
        tags: ["pending messages"],
        summary:
          "Queue a message until the conversation is ready; the id may be `task-` plus its start task's id",
        params: ConversationPath,
        body: PendingMessageRequest,
        response: { 201: PendingMessageResponse },
      },
    },
    async (request, reply) => {
      const { conversation_id: target } = request.params;
      const added = await conversations.pending.add(
        request.principal.userId,
        target,
        parseContent(request.body.content),
      );
      return reply.code(201).send({ ...added, queued: true });
    },
  );
}
