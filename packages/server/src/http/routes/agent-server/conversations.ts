import { PlatformError } from "@sandpiper/core/errors";
import {
  ConfirmationResponse,
  ConversationInfoWithLegacy,
  SendMessageRequest,
  Success,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { parseContent } from "../../../conversations/log/messages.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation, visibleConversation } from "../account/conversation-access.ts";
import { agentConversationControlRoutes } from "./conversation-controls.ts";
import { conversationInfo, startingInfo } from "./conversation-info.ts";
import { agentConversationListRoutes } from "./conversation-lists.ts";
import { agentConversationRecordRoutes } from "./conversation-record.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/**
 * A conversation's agent-server surface (agent-server.md sections 3 to 5), for a user's key and for the session key of the
 * conversation's sandbox. Any other conversation answers 404.
 */
export function agentConversationRoutes(app: App, services: HttpServices): void {
  const { conversations } = services;
  agentConversationListRoutes(app, services);
  agentConversationRecordRoutes(app, services);
  agentConversationControlRoutes(app, services);
  const tags = ["agent server"];
  const config = { access: "agent", failures: [409] } as const;
  // A conversation whose sandbox is gone takes no more work.
  const working = { ...config, failures: [409, 410] } as const;
  const base = "/api/conversations/:conversation_id";

  app.get(
    base,
    {
      // Both texts of a refusal: this route belongs to the V0 family too.
      config: { ...config, errors: "error" },
      schema: {
        tags,
        summary: "Read a conversation, in the agent server's shape and in the legacy one",
        params: ConversationPath,
        querystring: Type.Object({ include_skills: Type.Boolean({ default: false }) }),
        response: { 200: ConversationInfoWithLegacy },
      },
    },
    ({ principal, params, query }, reply) => {
      const row = visibleConversation(conversations, principal, params.conversation_id);
      const shown = row
        ? conversationInfo(conversations, row, { skills: query.include_skills })
        : startingInfo(conversations, principal, params);
      if (!shown) throw new PlatformError("ConversationNotFound", "Conversation not found");
      reply.send(shown);
    },
  );
  app.post(
    `${base}/events`,
    {
      config: working,
      schema: {
        tags,
        summary: "Send a message; with run the agent starts",
        params: ConversationPath,
        body: SendMessageRequest,
        response: { 200: Success },
      },
    },
    async (request) => {
      const { id } = requireConversation(conversations, request.principal, request.params.conversation_id);
      const { content, run = false, sender } = request.body;
      await conversations.send(id, parseContent(content), { run, sender: sender ?? undefined });
      return { success: true };
    },
  );
  app.post(
    `${base}/events/respond_to_confirmation`,
    {
      config: working,
      schema: {
        tags,
        summary: "Approve or refuse the actions that wait for confirmation",
        params: ConversationPath,
        body: ConfirmationResponse,
        response: { 200: Success },
      },
    },
    async (request) => {
      const { id } = requireConversation(conversations, request.principal, request.params.conversation_id);
      const { accept, reason = "User rejected the action." } = request.body;
      if (accept) await conversations.run(id).catch(ignoreRunning);
      else await conversations.reject(id, reason);
      return { success: true };
    },
  );
  const verbs = {
    run: "Start the agent, or approve what waits for confirmation",
    pause: "Pause after the current step",
    interrupt: "Cancel the current step and pause",
  } as const;
  for (const verb of ["run", "pause", "interrupt"] as const) {
    app.post(
      `${base}/${verb}`,
      {
        config: working,
        schema: { tags, summary: verbs[verb], params: ConversationPath, response: { 200: Success } },
      },
      async (request) => {
        await conversations[verb](
          requireConversation(conversations, request.principal, request.params.conversation_id).id,
        );
        return { success: true };
      },
    );
  }
}

/** An approval that comes twice finds the run under way. */
function ignoreRunning(error: unknown): void {
  if (!(error instanceof PlatformError && error.code === "ConversationRunning")) throw error;
}
