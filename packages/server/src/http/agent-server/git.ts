import { GitChange, GitDiff } from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import { gitChanges, gitDiff } from "../../sandboxes/git/git.ts";
import { pathInside } from "../../sandboxes/path-inside.ts";
import type { Sandbox } from "../../sandboxes/sandbox.ts";
import type { App, HttpServices } from "../services.ts";
import { agentSandbox } from "./agent-sandbox.ts";

const path = Type.String({ minLength: 1, maxLength: 4_000, description: "relative ones start at the sandbox's working folder" });
const keys = {
  ref: Type.Optional(Type.String({ description: "what to compare with; default: where the work began" })),
  sandbox_id: Type.Optional(Type.String({ description: "needed where no session key names the sandbox" })),
};
const Query = Type.Object(keys);
const PathQuery = Type.Object({ path, ...keys });
const Path = Type.Object({ path });

/**
 * Changes in git repositories of a sandbox (agent-server.md section 8). The path stands in the query, or, as released clients have it, in one encoded
 * segment of the address (legacy-gui.md section 7.2, agent-server.md section 12).
 */
export function agentGitRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  const tags = ["agent server"];
  const config = { access: "agent", failures: [400, 404, 502, 503] } as const;
  type Request = Parameters<typeof agentSandbox>[1];
  async function look<T>(request: Request, query: Static<typeof PathQuery>, read: typeof changes | typeof diff): Promise<T> {
    const row = agentSandbox(sandboxes, request, query.sandbox_id);
    const sandbox = await sandboxes.running(row.id);
    return read(sandbox, pathInside(sandbox.spec.workingDir, query.path), query.ref) as Promise<T>;
  }

  app.get(
    "/api/git/changes",
    {
      config,
      schema: { tags, summary: "List changed files", querystring: PathQuery, response: { 200: Type.Array(GitChange) } },
    },
    (request) => look(request, request.query, changes),
  );
  app.get(
    "/api/git/changes/:path",
    {
      config,
      schema: {
        tags,
        summary: "List changed files; the folder is one encoded segment",
        params: Path,
        querystring: Query,
        response: { 200: Type.Array(GitChange) },
      },
    },
    (request) => look(request, { ...request.query, path: request.params.path }, changes),
  );
  app.get(
    "/api/git/diff",
    { config, schema: { tags, summary: "Read a file before and now", querystring: PathQuery, response: { 200: GitDiff } } },
    (request) => look(request, request.query, diff),
  );
  app.get(
    "/api/git/diff/:path",
    {
      config,
      schema: {
        tags,
        summary: "Read a file before and now; its path is one encoded segment",
        params: Path,
        querystring: Query,
        response: { 200: GitDiff },
      },
    },
    (request) => look(request, { ...request.query, path: request.params.path }, diff),
  );
}

const changes = (sandbox: Sandbox, folder: string, ref?: string) => gitChanges(sandbox, folder, ref);
const diff = (sandbox: Sandbox, file: string, ref?: string) => gitDiff(sandbox, file, ref);
