import { PlatformError } from "@sandpiper/core/errors";
import { gitChanges, gitDiff } from "@sandpiper/sandbox/files/git/git";
import { gitCommitDiff } from "@sandpiper/sandbox/files/git/history";
import { resolveInside } from "@sandpiper/sandbox/files/resolve-inside";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { GitChange, GitDiff } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { type AgentScope, makeAgentScopes, resolveInWorkspace } from "./agent-scope.ts";
import { sandboxKeys } from "./file-paths.ts";

export const gitPath = Type.String({
  minLength: 1,
  maxLength: 4_000,
  description: "absolute, or relative to the sandbox's working folder",
});
const ref = {
  ref: Type.Optional(Type.String({ description: "what to compare with; by default the state at the start" })),
};
const commit = {
  commit: Type.Optional(
    Type.String({ description: "show this commit's changes against its first parent; excludes ref" }),
  ),
};
const ChangesKeys = Type.Object({ ...ref, ...sandboxKeys });
const DiffKeys = Type.Object({ ...ref, ...commit, ...sandboxKeys });
const Path = Type.Object({ path: gitPath });
const SlashedPath = Type.Object({ "*": gitPath });

/**
 * Changes in git repositories of a sandbox (agent-server.md section 8). The path is in the query
 * or, for released clients, in one encoded segment or with its own slashes (legacy-gui.md section
 * 7.2, agent-server.md section 12).
 */
export function agentGitRoutes(app: App, services: Pick<HttpServices, "sandboxes" | "conversations">): void {
  const { sandboxes } = services;
  const failures = [400, 404, 503];
  const route = makeRoute(["agent server"], { access: "agent", failures });
  const scopes = makeAgentScopes(services);
  const [whole] = scopes as [AgentScope];
  const changes = (
    request: FastifyRequest,
    path: string,
    { ref }: Static<typeof ChangesKeys>,
    scope = whole,
  ) =>
    inspectInSandbox(sandboxes, scope, request, path, (sandbox, folder) => gitChanges(sandbox, folder, ref));
  const diff = (
    request: FastifyRequest,
    path: string,
    { ref, commit }: Static<typeof DiffKeys>,
    scope = whole,
  ) => {
    if (ref && commit) throw new PlatformError("RefAndCommit");
    return inspectInSandbox(sandboxes, scope, request, path, (sandbox, file) =>
      commit ? gitCommitDiff(sandbox, file, commit) : gitDiff(sandbox, file, ref),
    );
  };

  for (const scope of scopes) {
    // V0 has paths of the same names, which user keys open (legacy-gui.md section 8).
    const constraints = scope.isScoped ? { constraints: { view: "agent" } } : {};
    const config = { failures: [...failures, ...scope.failures] };
    app.get(`${scope.base}/git/changes`, {
      ...constraints,
      ...route(
        scope.summary("List changed files"),
        {
          params: scope.params({}),
          querystring: scope.query({ path: gitPath, ...ref }),
          response: { 200: Type.Array(GitChange) },
        },
        config,
      ),
      handler: (request) => changes(request, request.query.path, request.query, scope),
    });
    app.get(`${scope.base}/git/diff`, {
      ...constraints,
      ...route(
        scope.summary("Read a file before and after the changes"),
        {
          params: scope.params({}),
          querystring: scope.query({ path: gitPath, ...ref, ...commit }),
          response: { 200: GitDiff },
        },
        config,
      ),
      handler: (request) => diff(request, request.query.path, request.query, scope),
    });
  }
  app.get(
    "/api/git/changes/:path",
    route("List changed files; the folder is one encoded segment", {
      params: Path,
      querystring: ChangesKeys,
      response: { 200: Type.Array(GitChange) },
    }),
    (request) => changes(request, request.params.path, request.query),
  );
  app.get(
    "/api/git/changes/*",
    route("List changed files", { hide: true, params: SlashedPath, querystring: ChangesKeys }),
    (request) => changes(request, request.params["*"], request.query),
  );
  app.get(
    "/api/git/diff/:path",
    route("Read a file before and after the changes; its path is one encoded segment", {
      params: Path,
      querystring: DiffKeys,
      response: { 200: GitDiff },
    }),
    (request) => diff(request, request.params.path, request.query),
  );
  app.get(
    "/api/git/diff/*",
    route("Read a file", { hide: true, params: SlashedPath, querystring: DiffKeys }),
    (request) => diff(request, request.params["*"], request.query),
  );
}

/**
 * Inspects a path in the request's sandbox, below a conversation in its workspace. Throws what
 * `AgentScope.find` and `running` throw, InvalidParameter, and GitRefused when git fails.
 */
export async function inspectInSandbox<T>(
  sandboxes: HttpServices["sandboxes"],
  scope: AgentScope,
  request: FastifyRequest,
  path: string,
  look: (sandbox: Sandbox, path: string) => Promise<T>,
): Promise<T> {
  const { row, conversation } = await scope.find(request);
  const inside = conversation && resolveInWorkspace(conversation.workspace, path);
  const sandbox = endingWithClient(request, await sandboxes.running(row.id));
  return toGitRefused(look(sandbox, inside ?? resolveInside(sandbox.spec.workingDir, path)));
}

/**
 * Converts failures of git to 400, as in the reference: the repository is the sandbox's, not the
 * server's.
 */
export async function toGitRefused<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof PlatformError && error.code === "GitFailed")) throw error;
    throw new PlatformError("GitRefusedInSandbox", { reason: error.message }, { cause: error });
  }
}
