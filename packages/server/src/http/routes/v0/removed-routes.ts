import { PlatformError } from "@sandpiper/core/errors";
import { Type } from "typebox";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** V0 routes without a V1 counterpart, and their replacements. */
const removed = [
  [
    "GET",
    "zip-directory",
    "Folders are not zipped: get a tar from GET /api/v1/sandboxes/{sandbox_id}/archive.",
  ],
  ["GET", "remember-prompt", "This server does not write prompts for microagents."],
  ["POST", "submit-feedback", "This server collects no feedback."],
  [
    "POST",
    "upload-files",
    "Upload files with POST /api/file/upload/{path}, or PUT /api/v1/sandboxes/{sandbox_id}/files.",
  ],
] as const;

/** Responds 410 to V0 routes that this server does not implement; 404 for unknown conversations. */
export function removedRoutes(app: App, { conversations }: Pick<HttpServices, "conversations">): void {
  for (const [method, name, sentence] of removed) {
    app.route({
      method,
      url: `/api/conversations/:conversation_id/${name}`,
      exposeHeadRoute: false,
      config: { errors: "error", failures: [410] },
      schema: {
        tags: ["legacy conversations"],
        summary: `Not implemented: ${sentence}`,
        params: ConversationPath,
      },
      handler: async ({ principal, params }) => {
        await requireConversation(
          conversations,
          principal,
          (params as { conversation_id: string }).conversation_id,
        );
        throw new PlatformError("RouteRemoved", { reason: sentence });
      },
    });
  }
}
