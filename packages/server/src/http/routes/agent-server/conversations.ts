import { PlatformError } from "@sandpiper/core/errors";
import {
  ConfirmationResponse,
  ConversationInfoWithLegacy,
  SendMessageRequest,
  Success,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { parseContent } from "../../../conversations/log/messages.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation, visibleConversation } from "../account/conversation-access.ts";
import { agentConversationControlRoutes } from "./conversation-controls.ts";
import { findStartingInfo, toConversationInfo } from "./conversation-info.ts";
import { agentConversationListRoutes } from "./conversation-lists.ts";
import { agentConversationRecordRoutes } from "./conversation-record.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/**
 * A conversation's agent-server surface (agent-server.md sections 3 to 5), for user keys and the
 * sandbox's session key. Other conversations are 404.
 */
export function agentConversationRoutes(
  app: App,
  services: Pick<
    HttpServices,
    "conversations" | "encryptedValues" | "events" | "longReads" | "settings" | "skills"
  >,
): void {
  const { conversations } = services;
  agentConversationListRoutes(app, services);
  agentConversationRecordRoutes(app, services);
  agentConversationControlRoutes(app, services);
  const tags = ["agent server"];
  const config = { access: "agent", failures: [409] } as const;
  // A conversation without its sandbox accepts no more work.
  const route = makeRoute(tags, { ...config, failures: [409, 410] });
  const base = "/api/conversations/:conversation_id";

  app.get(
    base,
    {
      // This route also belongs to the V0 family, so errors have both texts.
      config: { ...config, errors: "error" },
      schema: {
        tags,
        summary: "Read a conversation, in the agent server's and the legacy shape",
        params: ConversationPath,
        querystring: Type.Object({ include_skills: Type.Boolean({ default: false }) }),
        response: { 200: ConversationInfoWithLegacy },
      },
    },
    async ({ principal, params, query }) => {
      const row = await visibleConversation(conversations, principal, params.conversation_id);
      const shown = row
        ? await toConversationInfo(conversations, row, principal, { skills: query.include_skills })
        : await findStartingInfo(conversations, principal, params);
      if (!shown) throw new PlatformError("ConversationUnknown");
      if (row) conversations.live.noteRead(row.id, "state");
      return shown;
    },
  );
  app.post(
    `${base}/events`,
    route(
      "Send a message; run starts the agent",
      { params: ConversationPath, body: SendMessageRequest, response: { 200: Success } },
      { longBody: true },
    ),
    async (request) => {
      const { id } = await requireConversation(
        conversations,
        request.principal,
        request.params.conversation_id,
      );
      const { content, run = false, sender } = request.body;
      await conversations.commands.send(id, parseContent(content), { run, sender: sender ?? undefined });
      return { success: true };
    },
  );
  app.post(
    `${base}/events/respond_to_confirmation`,
    route("Approve or reject the actions that wait for confirmation", {
      params: ConversationPath,
      body: ConfirmationResponse,
      response: { 200: Success },
    }),
    async (request) => {
      const { id } = await requireConversation(
        conversations,
        request.principal,
        request.params.conversation_id,
      );
      const { accept, reason = "User rejected the action." } = request.body;
      if (accept) await conversations.commands.run(id).catch(ignoreRunning);
      else await conversations.commands.reject(id, reason);
      return { success: true };
    },
  );
  const verbs = {
    run: "Start the agent, or approve the waiting actions",
    pause: "Pause after the current step",
    interrupt: "Cancel the current step and pause",
  } as const;
  for (const verb of ["run", "pause", "interrupt"] as const) {
    app.post(
      `${base}/${verb}`,
      route(verbs[verb], { params: ConversationPath, response: { 200: Success } }),
      async (request) => {
        await conversations.commands[verb](
          (await requireConversation(conversations, request.principal, request.params.conversation_id)).id,
        );
        return { success: true };
      },
    );
  }
}

/** A repeated approval finds the run already started. */
function ignoreRunning(error: unknown): void {
  if (!(error instanceof PlatformError && error.code === "ConversationRunning")) throw error;
}
