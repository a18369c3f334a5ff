import type { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { upload } from "@sandpiper/sandbox/files/file-streams";
import { Success } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { parseFormFile } from "../../server/multipart.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";
import {
  PathParams,
  PathQuery,
  requireAbsolute,
  SandboxQuery,
  SlashedParams,
  toBadRequest,
} from "./file-paths.ts";

/**
 * Form uploads into a sandbox (agent-server.md section 8); the GUI sends the path as one encoded
 * segment (legacy-gui.md section 7.1). Files are not buffered, so the body limit does not apply.
 */
export function agentFileUploadRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  const config = { access: "agent", failures: [400, 403, 404, 413, 415, 503] } as const;
  const common = { tags: ["agent server"], consumes: ["multipart/form-data"], response: { 200: Success } };
  const options = { config, bodyLimit: Number.MAX_SAFE_INTEGER };
  const summary = "Upload a file in the form field `file`; creates missing folders";

  async function store(request: FastifyRequest, target: string, named: string | undefined) {
    requireAbsolute(target);
    const row = requireAgentSandbox(sandboxes, request, named);
    if (!request.body) throw new PlatformError("MediaTypeUnsupported", { types: "multipart/form-data" });
    const body = request.body as Readable;
    const content = await parseFormFile(body, request.headers["content-type"], "file");
    await toBadRequest(upload(await sandboxes.running(row.id), target, content, undefined));
    // Skip the parts after the file.
    body.resume();
    return { success: true };
  }

  // In its own scope, because only here a body is a stream.
  app.register(async (scope: App) => {
    scope.addContentTypeParser("multipart/form-data", (_request, payload, done) => done(null, payload));
    scope.post(
      "/api/file/upload",
      { ...options, schema: { ...common, summary, querystring: PathQuery } },
      (request) => store(request, request.query.path, request.query.sandbox_id),
    );
    scope.post(
      "/api/file/upload/:path",
      {
        ...options,
        schema: {
          ...common,
          summary: `${summary}; its path is one encoded segment`,
          params: PathParams,
          querystring: SandboxQuery,
        },
      },
      (request) => store(request, request.params.path, request.query.sandbox_id),
    );
    scope.post(
      "/api/file/upload/*",
      { ...options, schema: { hide: true, params: SlashedParams, querystring: SandboxQuery } },
      (request) => store(request, request.params["*"], request.query.sandbox_id),
    );
  });
}
