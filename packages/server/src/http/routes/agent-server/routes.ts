import type { App, HttpServices } from "../../server/services.ts";
import { agentCatalogRoutes } from "./catalogs.ts";
import { agentExtensionRoutes } from "./extensions.ts";
import { agentRepositoryRoutes } from "./git-repositories.ts";
import { agentLlmRoutes } from "./llm.ts";
import { agentMcpRoutes } from "./mcp.ts";
import { agentLlmProfileRoutes } from "./profiles.ts";
import { agentProjectRoutes } from "./project.ts";
import { agentSecretRoutes } from "./secrets.ts";
import { agentSettingsRoutes } from "./settings.ts";
import { unsupportedRoutes } from "./unsupported-routes.ts";
import { agentWorkspaceRoutes } from "./workspaces.ts";

/** The agent server's settings, profiles, catalogues and skills (agent-server.md section 9). */
export function agentServerRoutes(
  app: App,
  services: Pick<
    HttpServices,
    | "conversations"
    | "encryptedValues"
    | "git"
    | "openModel"
    | "outbound"
    | "sandboxes"
    | "secrets"
    | "settings"
    | "skills"
  >,
): void {
  agentSettingsRoutes(app, services);
  agentSecretRoutes(app, services);
  agentLlmProfileRoutes(app, services);
  agentLlmRoutes(app);
  agentMcpRoutes(app, services);
  agentProjectRoutes(app, services);
  agentExtensionRoutes(app, services);
  agentRepositoryRoutes(app, services);
  agentCatalogRoutes(app, services);
  agentWorkspaceRoutes(app, services);
  unsupportedRoutes(app);
}
