import { ServiceUrl, VsCodeStatus } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { makeAgentScopes, resolveInWorkspace } from "./agent-scope.ts";

/** The editor and desktop that sandboxes lack (agent-server.md section 9). */
export function agentEditorRoutes(
  app: App,
  services: Pick<HttpServices, "sandboxes" | "conversations">,
): void {
  const route = makeRoute(["workspaces"], { access: "agent" });
  const base_url = Type.Optional(Type.String({ maxLength: 8_192, description: "accepted but ignored" }));
  const urlKeys = { base_url, workspace_dir: base_url };

  for (const scope of makeAgentScopes(services)) {
    const { failures } = scope;
    app.get(
      `${scope.base}/vscode/url`,
      route(
        scope.summary("Read the editor's URL: always null"),
        {
          // The path of V0, `vscode-url`, has the usual id.
          ...(scope.isScoped && { operationId: "get_conversation_vscode_url" }),
          params: scope.params({}),
          querystring: Type.Object(urlKeys),
          response: { 200: ServiceUrl },
        },
        { failures },
      ),
      async (request) => {
        const { workspace_dir: folder } = request.query;
        const { workspace } = (scope.isScoped && (await scope.find(request)).conversation) || {};
        if (workspace !== undefined && folder !== undefined) resolveInWorkspace(workspace, folder);
        return { url: null };
      },
    );
    app.get(
      `${scope.base}/vscode/status`,
      route(
        scope.summary("Read whether an editor runs: never"),
        { params: scope.params({}), response: { 200: VsCodeStatus } },
        { failures },
      ),
      async (request) => {
        if (scope.isScoped) await scope.find(request);
        return { running: false, enabled: false, message: "Sandboxes have no VS Code." };
      },
    );
  }
  app.get(
    "/api/desktop/url",
    route("Read the desktop's URL: always null", {
      querystring: Type.Object({ base_url }),
      response: { 200: ServiceUrl },
    }),
    () => ({ url: null }),
  );
}
