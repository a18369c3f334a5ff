import { AgentFinalResponse, PatchConversationRequest, Success } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { findFinalResponse } from "./final-response.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** Title, tags, final response and deletion of a conversation (agent-server.md section 3). */
export function agentConversationRecordRoutes(
  app: App,
  { conversations, events }: Pick<HttpServices, "conversations" | "events">,
): void {
  const tags = ["agent server"];
  const path = "/api/conversations/:conversation_id";
  const route = makeRoute(tags, {}, { view: "agent" });

  app.patch(
    path,
    route(
      "Change the title or replace the tags",
      { params: ConversationPath, body: PatchConversationRequest, response: { 200: Success } },
      { access: "agent" },
    ),
    async ({ principal, params, body }) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      await conversations.settings.describe(row, body);
      return { success: true };
    },
  );
  app.delete(
    path,
    route(
      "Delete a conversation with its sub-conversations; the sandbox stays",
      { params: ConversationPath, response: { 200: Success } },
      { access: "agent", failures: [400] },
    ),
    async ({ principal, params }) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      await conversations.remove(row.userId, row.id, { keepSandbox: true });
      return { success: true };
    },
  );
  app.get(
    `${path}/agent_final_response`,
    {
      config: { access: "agent" },
      schema: {
        tags,
        summary: "Read the agent's last message to the user; empty if there is none",
        params: ConversationPath,
        response: { 200: AgentFinalResponse },
      },
    },
    async ({ principal, params }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      return { response: await findFinalResponse(events, id, { isWanted: () => !reply.raw.destroyed }) };
    },
  );
}
