import { once } from "node:events";
import { basename } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { packArchive } from "@sandpiper/sandbox/files/archives";
import { stat } from "@sandpiper/sandbox/files/files";
import { findRepository, gitDelta, type Repository } from "@sandpiper/sandbox/files/git/archive";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { StringEnum } from "@sandpiper/wire";
import { Type } from "typebox";
import { getDownloadHeaders } from "../../server/file-headers.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { agentSandbox } from "./agent-sandbox.ts";
import { absolute, path, sandboxKeys, usable } from "./file-paths.ts";
import { gitAnswer } from "./git.ts";

/** What tools make again, and git's own files. A slash at the end means a folder. */
const usualExcludes =
  ".git/ node_modules/ .venv/ venv/ __pycache__/ .mypy_cache/ .pytest_cache/ .ruff_cache/ dist/ build/ .next/ target/ *.pyc".split(
    " ",
  );
/** May hold credentials of remotes, and never belong to an archive. */
const privateFiles = [".git/config", ".git/logs"];

const pattern = Type.String({ minLength: 1, maxLength: 1_000, pattern: "^[^\\n\\0]*$" });
const Query = Type.Object({
  path,
  format: StringEnum(["git-delta", "tar.gz"], {
    default: "git-delta",
    description: "a patch for `git apply`, or everything",
  }),
  base_ref: Type.Optional(
    Type.String({
      maxLength: 1_000,
      description: "what a patch is made against; default: where the work began",
    }),
  ),
  use_default_excludes: Type.Boolean({
    default: true,
    description: "leave out what tools make again, and .git",
  }),
  exclude: Type.Optional(
    Type.Array(pattern, { maxItems: 100, description: "patterns of names that are left out too" }),
  ),
  ...sandboxKeys,
});

/**
 * A folder of a sandbox to keep: as a gzipped tar, or as a patch of what changed in its git repository (agent-server.md section 8). It is made while it
 * is taken. `X-Archive-*` headers, percent-encoded, say which repository it is and what a patch applies to.
 */
export function agentArchiveRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  app.get(
    "/api/file/archive",
    {
      config: { access: "agent", failures: [400, 404, 503] },
      exposeHeadRoute: false,
      schema: {
        tags: ["agent server"],
        summary: "Download a folder as a gzipped tar, or as a patch of what changed in its git repository",
        querystring: Query,
        produces: ["application/gzip", "text/x-patch"],
      },
    },
    async (request, reply) => {
      const { format, base_ref, use_default_excludes, exclude = [], sandbox_id } = request.query;
      const folder = absolute(request.query.path);
      const sandbox = await sandboxes.running(agentSandbox(sandboxes, request, sandbox_id).id);
      await usable(requireFolder(sandbox, folder));
      const excludes = [...(use_default_excludes ? usualExcludes : []), ...exclude];
      const repository = await gitAnswer(findRepository(sandbox, folder));
      if (format === "tar.gz") {
        const content = await packArchive(sandbox, folder, {
          gzip: true,
          named: true,
          excludes: [...excludes.map((text) => text.replace(/(?<=.)\/+$/, "")), ...privateFiles],
        });
        // What fails before the first byte is still an answer in words.
        await usable(once(content, "readable"));
        return reply
          .headers({
            ...headersOf(`${basename(folder) || "root"}.tar.gz`, repository),
            "content-type": "application/gzip",
          })
          .send(content);
      }
      if (!repository) {
        throw new PlatformError(
          "BadRequest",
          `Not a git repository: ${folder} is in none, and there is not exactly one below it.`,
        );
      }
      const { base, content } = await gitAnswer(
        gitDelta(sandbox, repository.folder, { ref: base_ref, excludes }),
      );
      const known =
        base === "" ? {} : { "x-archive-base-commit": base, "x-archive-base-ref": safe(base_ref || "auto") };
      const headers = headersOf(`${basename(repository.folder)}.patch`, repository);
      return reply
        .headers({ ...headers, ...known, "content-type": "text/x-patch; charset=utf-8" })
        .send(content);
    },
  );
}

async function requireFolder(sandbox: Sandbox, folder: string): Promise<void> {
  const found = await stat(sandbox, folder);
  if (!found) throw new PlatformError("FileNotFound", `There is no ${folder} in the sandbox.`);
  if (found.kind !== "directory") throw new PlatformError("BadRequest", `${folder} is not a directory.`);
}

function headersOf(name: string, repository: Repository | undefined): Record<string, string> {
  const facts = {
    "x-archive-repo-root": repository?.root,
    "x-archive-repo-remote": repository?.remote,
    "x-archive-branch": repository?.branch,
    "x-archive-head-commit": repository?.commit,
  };
  const told = Object.entries(facts).flatMap(([key, value]) => (value ? [[key, safe(value)]] : []));
  return { ...getDownloadHeaders(name), ...Object.fromEntries(told) };
}

/** Text as a header may carry it; nobody's headers are made too long by what a repository says. */
function safe(text: string): string {
  return encodeURIComponent(text.slice(0, 1_000).toWellFormed());
}
