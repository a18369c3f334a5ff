import {
  AddWorkspaceParents,
  AddWorkspaces,
  Deleted,
  SavedWorkspaces,
  ServiceUrl,
  VsCodeStatus,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";

const FolderQuery = Type.Object({
  path: Type.String({ minLength: 1, maxLength: 4_000, description: "path of the folder" }),
});

/**
 * Folders that clients save for the user, and the editor and desktop that sandboxes lack
 * (agent-server.md section 9).
 */
export function agentWorkspaceRoutes(
  app: App,
  { settings: { workspaces } }: Pick<HttpServices, "settings">,
): void {
  const route = makeRoute(["workspaces"], { access: "agent" });

  app.get(
    "/api/workspaces",
    route("List saved folders", { response: { 200: SavedWorkspaces } }),
    ({ principal }) => workspaces.list(principal.userId),
  );
  app.post(
    "/api/workspaces",
    route("Save folders; replaces one of the same path", {
      body: AddWorkspaces,
      response: { 200: SavedWorkspaces },
    }),
    ({ principal, body }) => workspaces.add(principal.userId, { workspaces: body.workspaces }),
  );
  app.delete(
    "/api/workspaces",
    route("Forget a folder", { querystring: FolderQuery, response: { 200: Deleted } }),
    async ({ principal, query }) => ({
      deleted: await workspaces.remove(principal.userId, "workspaces", query.path),
    }),
  );
  app.post(
    "/api/workspaces/parents",
    route("Save folders whose subfolders are workspaces", {
      body: AddWorkspaceParents,
      response: { 200: SavedWorkspaces },
    }),
    ({ principal, body }) => workspaces.add(principal.userId, { parents: body.parents }),
  );
  app.delete(
    "/api/workspaces/parents",
    route("Forget a folder of workspaces", { querystring: FolderQuery, response: { 200: Deleted } }),
    async ({ principal, query }) => ({
      deleted: await workspaces.remove(principal.userId, "workspaceParents", query.path),
    }),
  );

  const base_url = Type.Optional(Type.String({ maxLength: 8_192, description: "accepted but ignored" }));
  app.get(
    "/api/vscode/url",
    route("Read the editor's URL: always null", {
      querystring: Type.Object({ base_url, workspace_dir: base_url }),
      response: { 200: ServiceUrl },
    }),
    () => ({ url: null }),
  );
  app.get(
    "/api/vscode/status",
    route("Read whether an editor runs: never", { response: { 200: VsCodeStatus } }),
    () => ({ running: false, enabled: false, message: "Sandboxes have no VS Code." }),
  );
  app.get(
    "/api/desktop/url",
    route("Read the desktop's URL: always null", {
      querystring: Type.Object({ base_url }),
      response: { 200: ServiceUrl },
    }),
    () => ({ url: null }),
  );
}
