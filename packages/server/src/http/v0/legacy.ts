import { agentFileUploadRoutes } from "../agent-server/file-upload.ts";
import { agentGitRoutes } from "../agent-server/git.ts";
import type { App, HttpServices } from "../services.ts";
import { legacyEventRoutes } from "./conversation-events.ts";
import { legacySandboxRoutes } from "./conversation-sandbox.ts";
import { legacyWorkRoutes } from "./conversation-work.ts";
import { legacyConversationRoutes } from "./conversations.ts";
import { goneRoutes } from "./gone.ts";

/** The V0 routes of conversations, and the agent-server routes that the released GUI needs beside them. */
export function legacyRoutes(app: App, services: HttpServices): void {
  legacyConversationRoutes(app, services);
  legacySandboxRoutes(app, services);
  legacyWorkRoutes(app, services);
  legacyEventRoutes(app, services);
  goneRoutes(app, services);
  agentGitRoutes(app, services);
  agentFileUploadRoutes(app, services);
}
