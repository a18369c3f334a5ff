import { PlatformError } from "@sandpiper/core/errors";
import { Type } from "typebox";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** V0 routes without a V1 counterpart: what to use in their place. */
const gone = [
  [
    "GET",
    "zip-directory",
    "Folders are not zipped: get a tar from GET /api/v1/sandboxes/{sandbox_id}/archive.",
  ],
  ["GET", "remember-prompt", "Prompts for microagents are not written by this server."],
  ["POST", "submit-feedback", "This server collects no feedback."],
  [
    "POST",
    "upload-files",
    "Upload files with POST /api/file/upload/{path}, or PUT /api/v1/sandboxes/{sandbox_id}/files.",
  ],
] as const;

/** Answers 410 with a sentence for what this server leaves out of the V0 API; 404 where there is no such conversation. */
export function goneRoutes(app: App, { conversations }: Pick<HttpServices, "conversations">): void {
  for (const [method, name, sentence] of gone) {
    app.route({
      method,
      url: `/api/conversations/:conversation_id/${name}`,
      exposeHeadRoute: false,
      config: { errors: "error", failures: [410] },
      schema: { tags: ["legacy conversations"], summary: `Left out: ${sentence}`, params: ConversationPath },
      handler: ({ principal, params }) => {
        requireConversation(
          conversations,
          principal,
          (params as { conversation_id: string }).conversation_id,
        );
        throw new PlatformError("Gone", sentence);
      },
    });
  }
}
