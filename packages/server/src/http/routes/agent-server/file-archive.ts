import { once } from "node:events";
import { basename } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { stat } from "@sandpiper/sandbox/files/files";
import { type ArchivedRepository, findRepository, gitDelta } from "@sandpiper/sandbox/files/git/archive";
import { packWorkspace } from "@sandpiper/sandbox/files/workspace-archive";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { StringEnum } from "@sandpiper/wire";
import { Type } from "typebox";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { getDownloadHeaders } from "../../server/file-headers.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { type AgentScope, makeAgentScopes, resolveFilePath } from "./agent-scope.ts";
import { absolutePath, toBadRequest } from "./file-paths.ts";
import { toGitRefused } from "./git.ts";

/** Generated files and git's own; a final slash means a folder. */
const defaultExcludes =
  ".git/ node_modules/ .venv/ venv/ __pycache__/ .mypy_cache/ .pytest_cache/ .ruff_cache/ dist/ build/ .next/ target/ *.pyc".split(
    " ",
  );
/** Files of git that may contain credentials, as patterns of .gitignore; in no patch. */
const privateFiles = [
  ".git-credentials",
  ...["config", "config.worktree", "credentials", "FETCH_HEAD", "logs/"].map((name) => `**/*.git/${name}`),
];

const pattern = Type.String({ minLength: 1, maxLength: 1_000, pattern: "^[^\\n\\0]*$" });
const queryKeys = {
  path: absolutePath,
  format: StringEnum(["git-delta", "tar.gz"], {
    default: "git-delta",
    description: "a patch for `git apply`, or all files",
  }),
  base_ref: Type.Optional(
    Type.String({
      maxLength: 1_000,
      description: "the patch's base; by default the state at the start",
    }),
  ),
  use_default_excludes: Type.Boolean({
    default: true,
    description: "leave out generated files and .git",
  }),
  exclude: Type.Optional(
    Type.Array(pattern, { maxItems: 100, description: "further patterns of names to leave out" }),
  ),
};

/**
 * Streams a folder of a sandbox as a gzipped tar, or as a patch of the changes in its git
 * repository (agent-server.md section 8). Percent-encoded `X-Archive-*` headers describe the
 * repository and the patch's base.
 */
export function agentArchiveRoutes(
  app: App,
  services: Pick<HttpServices, "sandboxes" | "conversations">,
): void {
  for (const scope of makeAgentScopes(services)) archiveRoute(app, services, scope);
}

function archiveRoute(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">, scope: AgentScope): void {
  app.get(
    `${scope.base}/file/archive`,
    {
      config: { access: "agent", failures: [400, 404, 503, ...scope.failures] },
      exposeHeadRoute: false,
      schema: {
        tags: ["agent server"],
        summary: scope.summary(
          "Download a folder as a gzipped tar, or as a patch of the changes in its git repository",
        ),
        params: scope.params({}),
        querystring: scope.query(queryKeys),
        produces: ["application/gzip", "text/x-patch"],
      },
    },
    async (request, reply) => {
      const { format, base_ref, use_default_excludes, exclude = [] } = request.query;
      const place = await scope.find(request);
      const folder = resolveFilePath(place, request.query.path);
      const sandbox = endingWithClient(request, await sandboxes.running(place.row.id));
      await toBadRequest(requireFolder(sandbox, folder));
      const excludes = [...(use_default_excludes ? defaultExcludes : []), ...exclude];
      const repository = await toGitRefused(findRepository(sandbox, folder));
      if (format === "tar.gz") {
        const content = await packWorkspace(sandbox, folder, excludes);
        // An error before the first byte still gets an error response.
        await toBadRequest(once(content, "readable"));
        return reply
          .headers({
            ...buildHeaders(`${basename(folder) || "root"}.tar.gz`, repository),
            "content-type": "application/gzip",
          })
          .send(content);
      }
      if (!repository) {
        throw new PlatformError("NotAGitRepository", { folder });
      }
      const { base, content } = await toGitRefused(
        gitDelta(sandbox, repository.folder, { ref: base_ref, excludes: [...excludes, ...privateFiles] }),
      );
      const known =
        base === ""
          ? {}
          : { "x-archive-base-commit": base, "x-archive-base-ref": toHeaderValue(base_ref || "auto") };
      const headers = buildHeaders(`${basename(repository.folder)}.patch`, repository);
      return reply
        .headers({ ...headers, ...known, "content-type": "text/x-patch; charset=utf-8" })
        .send(content);
    },
  );
}

async function requireFolder(sandbox: Sandbox, folder: string): Promise<void> {
  const found = await stat(sandbox, folder);
  if (!found) throw new PlatformError("SandboxFileMissing", { path: folder });
  if (found.kind !== "directory") throw new PlatformError("NotADirectory", { path: folder });
}

function buildHeaders(name: string, repository: ArchivedRepository | undefined): Record<string, string> {
  const facts = {
    "x-archive-repo-root": repository?.root,
    "x-archive-repo-remote": repository?.remote,
    "x-archive-branch": repository?.branch,
    "x-archive-head-commit": repository?.commit,
  };
  const entries = Object.entries(facts).flatMap(([key, value]) =>
    value ? [[key, toHeaderValue(value)]] : [],
  );
  return { ...getDownloadHeaders(name), ...Object.fromEntries(entries) };
}

/** Encodes and truncates text for a header. */
function toHeaderValue(text: string): string {
  return encodeURIComponent(text.slice(0, 1_000).toWellFormed());
}
