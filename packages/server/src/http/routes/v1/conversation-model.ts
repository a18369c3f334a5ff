import { PlatformError } from "@sandpiper/core/errors";
import { Success, SwitchAcpModelRequest, SwitchProfileRequest } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** Changes of an existing conversation's model (app-server.md section 2.9). */
export function conversationModelRoutes(
  app: App,
  { conversations }: Pick<HttpServices, "conversations">,
): void {
  const route = makeRoute(["app conversations"]);
  const base = "/api/v1/app-conversations/:conversation_id";

  app.post(
    `${base}/switch_profile`,
    route("Use an LLM profile of the settings from the next model call", {
      params: ConversationPath,
      body: SwitchProfileRequest,
      response: { 200: Success },
    }),
    async ({ principal, params, body }) => {
      const { id, userId } = await requireConversation(conversations, principal, params.conversation_id);
      await conversations.switchProfile(userId, id, body.profile_name);
      return { success: true };
    },
  );
  app.post(
    `${base}/switch_acp_model`,
    route("Refused: this server has no ACP agents", {
      params: ConversationPath,
      body: SwitchAcpModelRequest,
      response: { 200: Success },
    }),
    async ({ principal, params }) => {
      await requireConversation(conversations, principal, params.conversation_id);
      throw new PlatformError("AcpModelUnsupported", { use: "switch_profile" });
    },
  );
}
