import { PlatformError } from "@sandpiper/core/errors";
import { hexId } from "@sandpiper/wire";
import { Type } from "typebox";
import { conversationArchive } from "../../../conversations/views/archive.ts";
import { getDownloadHeaders } from "../../server/file-headers.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

/** A conversation with all events as a zip file (app-server.md section 2.9); needs no sandbox. */
export function conversationDownloadRoutes(
  app: App,
  { conversations, events }: Pick<HttpServices, "conversations" | "events">,
): void {
  app.get(
    "/api/v1/app-conversations/:conversation_id/download",
    {
      exposeHeadRoute: false,
      config: { failures: [413] },
      schema: {
        tags: ["app conversations"],
        summary: "Download a conversation with its events as a zip file",
        params: Type.Object({ conversation_id: Type.String() }),
        produces: ["application/zip"],
      },
    },
    async ({ principal, params }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      const [shown] = await conversations.reads.batch(principal, [id]);
      // It may have been deleted between the two reads.
      if (!shown) throw new PlatformError("ConversationUnknown");
      return reply
        .headers(getDownloadHeaders(`conversation_${hexId(id)}.zip`))
        .send(await conversationArchive(events, id, shown));
    },
  );
}
