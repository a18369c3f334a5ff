import type { App, HttpServices } from "../../server/services.ts";
import { agentArchiveRoutes } from "./file-archive.ts";
import { agentFileDownloadRoutes } from "./file-download.ts";
import { agentFolderRoutes } from "./file-folders.ts";
import { agentFileUploadRoutes } from "./file-upload.ts";
import { agentGitRoutes } from "./git.ts";
import { agentGitCommitRoutes } from "./git-commits.ts";
import { workspaceFileRoutes } from "./workspace-files.ts";
import { workspaceSessionRoutes } from "./workspace-session.ts";

/** Files and git of the agent-server surface (agent-server.md sections 8 and 12). */
export function agentFileRoutes(
  app: App,
  services: Pick<HttpServices, "config" | "conversations" | "events" | "sandboxes">,
): void {
  agentFileUploadRoutes(app, services);
  agentFileDownloadRoutes(app, services);
  agentFolderRoutes(app, services);
  agentArchiveRoutes(app, services);
  workspaceFileRoutes(app, services);
  workspaceSessionRoutes(app, services);
  agentGitRoutes(app, services);
  agentGitCommitRoutes(app, services);
}
