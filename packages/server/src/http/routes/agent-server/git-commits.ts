import { gitCommitChanges, gitCommits } from "@sandpiper/sandbox/files/git/history";
import { GitChange, GitCommitsPage } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { sandboxKeys } from "./file-paths.ts";
import { gitPath, inspectInSandbox } from "./git.ts";

/** The history of git repositories in a sandbox (agent-server.md section 8). */
export function agentGitCommitRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  const route = makeRoute(["agent server"], { access: "agent", failures: [400, 404, 503] });

  app.get(
    "/api/git/commits",
    route("List the newest commits of a repository", {
      querystring: Type.Object({
        path: gitPath,
        limit: Type.Integer({ minimum: 1, maximum: 200, default: 50 }),
        ...sandboxKeys,
      }),
      response: { 200: GitCommitsPage },
    }),
    async (request) => {
      const { path, limit, sandbox_id } = request.query;
      const { commits, hasMore } = await inspectInSandbox(
        sandboxes,
        request,
        path,
        sandbox_id,
        (sandbox, folder) => gitCommits(sandbox, folder, limit),
      );
      return { commits, has_more: hasMore };
    },
  );
  app.get(
    "/api/git/commits/:sha/changes",
    route("List the files that a commit changed", {
      params: Type.Object({
        sha: Type.String({ description: "id of the commit, or a prefix of it" }),
      }),
      querystring: Type.Object({ path: gitPath, ...sandboxKeys }),
      response: { 200: Type.Array(GitChange) },
    }),
    (request) => {
      const { path, sandbox_id } = request.query;
      return inspectInSandbox(sandboxes, request, path, sandbox_id, (sandbox, folder) =>
        gitCommitChanges(sandbox, folder, request.params.sha),
      );
    },
  );
}
