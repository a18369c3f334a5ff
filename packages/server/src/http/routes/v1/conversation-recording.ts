import { hexId, RecordingLine, recordingType } from "@sandpiper/wire";
import { Type } from "typebox";
import { getDownloadHeaders } from "../../server/file-headers.ts";
import { sendBody } from "../../server/json-text.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

/**
 * A conversation with its model traffic, for offline replay (docs/everyday/command-line.md);
 * needs no sandbox.
 */
export function conversationRecordingRoutes(
  app: App,
  { conversations, recordings }: Pick<HttpServices, "conversations" | "recordings">,
): void {
  app.get(
    "/api/v1/app-conversations/:conversation_id/recording",
    {
      exposeHeadRoute: false,
      schema: {
        tags: ["app conversations"],
        summary: "Export a conversation with its model traffic",
        description:
          "One JSON object per line: the header, the events, the parts of prompts, the calls, and the end. Secrets are masked. The agent replays it offline with `sandpiper replay`.",
        params: Type.Object({ conversation_id: Type.String() }),
        response: {
          200: { description: "The recording", content: { [recordingType]: { schema: RecordingLine } } },
        },
      },
    },
    async ({ principal, params }, reply) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      // The schema describes one line.
      reply.headers({
        ...getDownloadHeaders(`conversation_${hexId(row.id)}.jsonl`),
        "content-type": recordingType,
      });
      return sendBody(reply, await recordings.export(row));
    },
  );
}
