import { gitCommitChanges, gitCommits } from "@sandpiper/sandbox/files/git/history";
import { GitChange, GitCommitsPage } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { type AgentScope, makeAgentScopes } from "./agent-scope.ts";
import { gitPath, inspectInSandbox } from "./git.ts";

/** The history of git repositories in a sandbox (agent-server.md section 8). */
export function agentGitCommitRoutes(
  app: App,
  services: Pick<HttpServices, "sandboxes" | "conversations">,
): void {
  for (const scope of makeAgentScopes(services)) commitRoutes(app, services, scope);
}

function commitRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">, scope: AgentScope): void {
  const failures = [400, 404, 503, ...scope.failures];
  const route = makeRoute(["agent server"], { access: "agent", failures });

  app.get(
    `${scope.base}/git/commits`,
    route(scope.summary("List the newest commits of a repository"), {
      params: scope.params({}),
      querystring: scope.query({
        path: gitPath,
        limit: Type.Integer({ minimum: 1, maximum: 200, default: 50 }),
      }),
      response: { 200: GitCommitsPage },
    }),
    async (request) => {
      const { path, limit } = request.query;
      const { commits, hasMore } = await inspectInSandbox(
        sandboxes,
        scope,
        request,
        path,
        (sandbox, folder) => gitCommits(sandbox, folder, limit),
      );
      return { commits, has_more: hasMore };
    },
  );
  app.get(
    `${scope.base}/git/commits/:sha/changes`,
    route(scope.summary("List the files that a commit changed"), {
      params: scope.params({
        sha: Type.String({ description: "id of the commit, or a prefix of it" }),
      }),
      querystring: scope.query({ path: gitPath }),
      response: { 200: Type.Array(GitChange) },
    }),
    (request) =>
      inspectInSandbox(sandboxes, scope, request, request.query.path, (sandbox, folder) =>
        gitCommitChanges(sandbox, folder, request.params.sha),
      ),
  );
}
