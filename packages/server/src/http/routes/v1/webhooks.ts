import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { ReportedConversation, ReportedEvents, Success } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { requireId } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

/** Largest report, bytes: agent servers send 5 MB at most (agent-server.md section 10). */
const bodyLimit = 16 * 1024 * 1024;

/**
 * What agent servers inside sandboxes report (app-server.md section 8). The key is a sandbox's own, and only that sandbox's conversations
 * are open to it.
 */
export function webhookRoutes(
  app: App,
  { conversations, sandboxes }: Pick<HttpServices, "conversations" | "sandboxes">,
): void {
  const tags = ["webhooks"];
  const config = { access: "agent", failures: [404, 409] } as const;

  const reporter = ({ headers }: FastifyRequest): SandboxRow => {
    const key = headers["x-session-api-key"];
    const row = typeof key === "string" ? sandboxes.bySessionKey(key) : undefined;
    if (!row) throw new PlatformError("Unauthorized", "Unauthorized");
    return row;
  };

  app.post(
    "/api/v1/webhooks/conversations",
    {
      config,
      bodyLimit: Math.min(bodyLimit, app.initialConfig.bodyLimit ?? bodyLimit),
      schema: {
        tags,
        summary: "Report a conversation that an agent server in a sandbox runs",
        operationId: "on_conversation_update",
        body: ReportedConversation,
        response: { 200: Success },
      },
    },
    async (request) => {
      const sandbox = reporter(request);
      await conversations.external.report(sandbox, requireId(request.body.id, "body", "id"), request.body);
      return { success: true };
    },
  );
  app.post(
    "/api/v1/webhooks/events/:conversation_id",
    {
      config,
      bodyLimit: Math.min(bodyLimit, app.initialConfig.bodyLimit ?? bodyLimit),
      schema: {
        tags,
        summary: "Report events of such a conversation; known ones are ignored",
        operationId: "on_event",
        params: Type.Object({ conversation_id: Type.String() }),
        body: ReportedEvents,
        response: { 200: Success },
      },
    },
    async (request) => {
      const sandbox = reporter(request);
      const id = requireId(request.params.conversation_id, "path", "conversation_id");
      await conversations.external.take(sandbox, id, request.body);
      return { success: true };
    },
  );
}
