import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { ReportedConversation, ReportedEvents, Success } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { ofRequest, sandbox } from "../../forwarding/concern.ts";
import { makeRoute } from "../../server/make-route.ts";
import { requireId } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

/** Maximum report, bytes; agent servers send at most 5 MB (agent-server.md section 10). */
const maxBodyBytes = 16 * 1024 * 1024;

/**
 * Reports of agent servers inside sandboxes (app-server.md section 8). The session key grants
 * access only to that sandbox's conversations.
 */
export function webhookRoutes(
  app: App,
  { conversations, grants }: Pick<HttpServices, "conversations" | "grants">,
): void {
  // A session key alone limits the request to its sandbox already.
  const concerns = ofRequest(({ principal }) => sandbox(principal.besideSandboxId));
  const route = makeRoute(["webhooks"], { access: "agent", failures: [404, 409], concerns });

  const reporter = async ({ headers }: FastifyRequest): Promise<SandboxRow> => {
    const key = headers["x-session-api-key"];
    const row = typeof key === "string" ? (await grants.bySessionKey(key))?.row : undefined;
    if (!row) throw new PlatformError("KeyRequired");
    return row;
  };

  app.post(
    "/api/v1/webhooks/conversations",
    {
      bodyLimit: Math.min(maxBodyBytes, app.initialConfig.bodyLimit ?? maxBodyBytes),
      ...route("Report a conversation of an agent server in a sandbox", {
        operationId: "on_conversation_update",
        body: ReportedConversation,
        response: { 200: Success },
      }),
    },
    async (request) => {
      const sandbox = await reporter(request);
      await conversations.reports.report(sandbox, requireId(request.body.id, "body", "id"), request.body);
      return { success: true };
    },
  );
  app.post(
    "/api/v1/webhooks/events/:conversation_id",
    {
      bodyLimit: Math.min(maxBodyBytes, app.initialConfig.bodyLimit ?? maxBodyBytes),
      ...route("Report events of such a conversation; duplicates are ignored", {
        operationId: "on_event",
        params: Type.Object({ conversation_id: Type.String() }),
        body: ReportedEvents,
        response: { 200: Success },
      }),
    },
    async (request) => {
      const sandbox = await reporter(request);
      const id = requireId(request.params.conversation_id, "path", "conversation_id");
      await conversations.reports.take(sandbox, id, request.body);
      return { success: true };
    },
  );
}
