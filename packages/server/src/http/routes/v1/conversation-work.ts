import type { App, HttpServices } from "../../server/services.ts";
import { conversationDownloadRoutes } from "./conversation-download.ts";
import { conversationGitRoutes } from "./conversation-git.ts";
import { conversationLogRoutes } from "./conversation-log.ts";
import { conversationMessageRoutes } from "./conversation-messages.ts";
import { conversationModelRoutes } from "./conversation-model.ts";
import { conversationReadRoutes } from "./conversation-reads.ts";
import { conversationRecordingRoutes } from "./conversation-recording.ts";
import { modelCheckRoutes } from "./model-check.ts";

/** Work with a conversation other than its start and record (app-server.md sections 2.7 to 2.9). */
export function conversationWorkRoutes(
  app: App,
  services: Pick<
    HttpServices,
    "conversations" | "events" | "openModel" | "recordings" | "sandboxes" | "settings"
  >,
): void {
  conversationMessageRoutes(app, services);
  conversationReadRoutes(app, services);
  conversationLogRoutes(app, services);
  conversationGitRoutes(app, services);
  conversationDownloadRoutes(app, services);
  conversationRecordingRoutes(app, services);
  conversationModelRoutes(app, services);
  modelCheckRoutes(app, services);
}
