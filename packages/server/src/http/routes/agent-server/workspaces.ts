import { AddWorkspaceParents, AddWorkspaces, Deleted, SavedWorkspaces } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";

const FolderQuery = Type.Object({
  path: Type.String({ minLength: 1, maxLength: 4_000, description: "path of the folder" }),
});

/** Folders that clients save for the user (agent-server.md section 9). */
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
}
