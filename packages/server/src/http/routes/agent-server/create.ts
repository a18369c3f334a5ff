import { ConversationInfo, StartConversationRequest } from "@sandpiper/wire";
import type { App, HttpServices } from "../../server/services.ts";
import { withoutSocketTimeout } from "../../server/without-socket-timeout.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";

/**
 * `POST /api/conversations` of the agent server (agent-server.md section 3): 201, or 200 if this
 * sandbox already has a conversation of that id.
 */
export function agentCreateRoutes(
  app: App,
  {
    conversations,
    sandboxes,
    encryptedValues,
  }: Pick<HttpServices, "conversations" | "sandboxes" | "encryptedValues">,
): void {
  app.post(
    "/api/conversations",
    {
      constraints: { view: "agent" },
      config: { access: "agent", longBody: true, failures: [404, 409, 502, 503] },
      schema: {
        tags: ["agent server"],
        summary: "Create a conversation in the sandbox",
        body: StartConversationRequest,
        response: { 200: ConversationInfo, 201: ConversationInfo },
      },
    },
    async (request, reply) => {
      const { userId, id: sandboxId } = requireAgentSandbox(sandboxes, request, undefined);
      const wanted = request.body.secrets_encrypted
        ? encryptedValues.decryptAll(userId, request.body)
        : request.body;
      const { row, created } = await withoutSocketTimeout(app, request, () =>
        conversations.starts.create({ userId, sandboxId }, wanted),
      );
      return reply.code(created ? 201 : 200).send(conversations.reads.info(row));
    },
  );
}
