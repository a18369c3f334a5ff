import type { App, HttpServices } from "../../server/services.ts";
import { legacyEventRoutes } from "./conversation-events.ts";
import { legacySandboxRoutes } from "./conversation-sandbox.ts";
import { legacyWorkRoutes } from "./conversation-work.ts";
import { legacyConversationRoutes } from "./conversations.ts";
import { removedRoutes } from "./removed-routes.ts";

export function legacyRoutes(
  app: App,
  services: Pick<HttpServices, "config" | "conversations" | "events" | "longReads" | "sandboxes">,
): void {
  legacyConversationRoutes(app, services);
  legacySandboxRoutes(app, services);
  legacyWorkRoutes(app, services);
  legacyEventRoutes(app, services);
  removedRoutes(app, services);
}
