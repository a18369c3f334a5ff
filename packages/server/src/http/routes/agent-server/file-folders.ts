import { PlatformError } from "@sandpiper/core/errors";
import { trimTail } from "@sandpiper/core/trim";
import { createFolder, listSubfolders } from "@sandpiper/sandbox/files/folder-pages";
import { HomeResponse, SubdirectoryPage, Success } from "@sandpiper/wire";
import { Type } from "typebox";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { makeRoute } from "../../server/make-route.ts";
import { pageKeys, toWirePage } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";
import { makeAgentScopes, resolveFilePath } from "./agent-scope.ts";
import { absolutePath, requireAbsolute, sandboxKeys, toBadRequest } from "./file-paths.ts";

/** Maximum listed folders of a home. */
const maxFavorites = 50;
const hidden = {
  include_hidden: Type.Boolean({ default: false, description: "include names that begin with a dot" }),
};

/** Folders of a sandbox, for folder pickers (agent-server.md section 8). */
export function agentFolderRoutes(
  app: App,
  services: Pick<HttpServices, "sandboxes" | "conversations">,
): void {
  const { sandboxes } = services;
  const failures = [400, 404, 503];
  const route = makeRoute(["agent server"], { access: "agent", failures });

  for (const scope of makeAgentScopes(services)) {
    app.post(
      `${scope.base}/file/create_directory`,
      route(
        scope.summary("Create a folder and its parents"),
        {
          params: scope.params({}),
          querystring: scope.query({ path: absolutePath }),
          response: { 200: Success },
        },
        { failures: [...failures, ...scope.failures] },
      ),
      async (request) => {
        const place = await scope.find(request);
        const target = resolveFilePath(place, request.query.path);
        await toBadRequest(createFolder(await sandboxes.running(place.row.id), target));
        return { success: true };
      },
    );
  }
  app.get(
    "/api/file/home",
    route("Read the home of the sandbox's user and its folders", {
      querystring: Type.Object({ ...hidden, ...sandboxKeys }),
      response: { 200: HomeResponse },
    }),
    async (request) => {
      const { include_hidden, sandbox_id } = request.query;
      const { id } = await requireAgentSandbox(sandboxes, request, sandbox_id);
      const sandbox = endingWithClient(request, await sandboxes.running(id));
      const { home } = sandbox.spec.user;
      const { names } = await listSubfolders(sandbox, home, {
        limit: maxFavorites,
        hidden: include_hidden,
      }).catch(ignoreMissingHome);
      return {
        home,
        favorites: names.map((name) => ({ label: name, path: joinPath(home, name) })),
        locations: [{ label: "/", path: "/" }],
      };
    },
  );
  app.get(
    "/api/file/search_subdirs",
    route("List subfolders by name, case-insensitive, without links", {
      querystring: Type.Object({ path: absolutePath, ...pageKeys, ...hidden, ...sandboxKeys }),
      response: { 200: SubdirectoryPage },
    }),
    async (request) => {
      const { path, page_id, limit, include_hidden, sandbox_id } = request.query;
      const folder = requireAbsolute(path);
      const { id } = await requireAgentSandbox(sandboxes, request, sandbox_id);
      const sandbox = endingWithClient(request, await sandboxes.running(id));
      const after = page_id === undefined ? undefined : Buffer.from(page_id, "base64url").toString();
      const { names, next } = await toBadRequest(
        listSubfolders(sandbox, folder, { limit, after, hidden: include_hidden }),
      );
      return toWirePage({
        items: names.map((name) => ({ name, path: joinPath(folder, name) })),
        nextPageId: next === undefined ? null : Buffer.from(next).toString("base64url"),
      });
    },
  );
}

function joinPath(folder: string, name: string): string {
  return `${trimTail(folder, "/")}/${name}`;
}

/** A missing or unreadable home has no folders. */
function ignoreMissingHome(error: unknown): { names: string[] } {
  const known =
    error instanceof PlatformError && ["FileNotFound", "FileForbidden", "NotAFile"].includes(error.code);
  if (!known) throw error;
  return { names: [] };
}
