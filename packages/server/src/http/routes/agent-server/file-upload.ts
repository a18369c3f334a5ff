import type { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { upload } from "@sandpiper/sandbox/files/file-streams";
import { FileUploaded } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { parseFormFile } from "../../server/multipart.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { type AgentScope, makeAgentScopes, resolveFilePath } from "./agent-scope.ts";
import { absolutePath, PathParams, SandboxQuery, SlashedParams, toBadRequest } from "./file-paths.ts";

/**
 * Form uploads into a sandbox (agent-server.md section 8); the GUI sends the path as one encoded
 * segment (legacy-gui.md section 7.1). Files are not buffered, so the body limit does not apply.
 */
export function agentFileUploadRoutes(
  app: App,
  services: Pick<HttpServices, "sandboxes" | "conversations">,
): void {
  const { sandboxes } = services;
  const scopes = makeAgentScopes(services);
  const [whole] = scopes as [AgentScope];
  const config = { access: "agent", failures: [400, 403, 404, 413, 415, 503] } as const;
  const common = {
    tags: ["agent server"],
    consumes: ["multipart/form-data"],
    response: { 200: FileUploaded },
  };
  const options = { config, bodyLimit: Number.MAX_SAFE_INTEGER };
  const summary = "Upload a file in the form field `file`; creates missing folders";

  async function store(request: FastifyRequest, scope: AgentScope, path: string) {
    const place = await scope.find(request);
    const target = resolveFilePath(place, path);
    if (!request.body) throw new PlatformError("MediaTypeUnsupported", { types: "multipart/form-data" });
    const body = request.body as Readable;
    const content = await parseFormFile(body, request.headers["content-type"], "file");
    const size = await toBadRequest(
      upload(await sandboxes.running(place.row.id), target, content, undefined),
    );
    // Skip the parts after the file.
    body.resume();
    return { success: true, file_size: size };
  }

  // In its own scope, because only here a body is a stream.
  app.register(async (scope: App) => {
    scope.addContentTypeParser("multipart/form-data", (_request, payload, done) => done(null, payload));
    for (const one of scopes) {
      scope.post(
        `${one.base}/file/upload`,
        {
          ...options,
          config: { ...config, failures: [...config.failures, ...one.failures] },
          schema: {
            ...common,
            summary: one.summary(summary),
            params: one.params({}),
            querystring: one.query({ path: absolutePath }),
          },
        },
        (request) => store(request, one, request.query.path),
      );
    }
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
      (request) => store(request, whole, request.params.path),
    );
    scope.post(
      "/api/file/upload/*",
      { ...options, schema: { hide: true, params: SlashedParams, querystring: SandboxQuery } },
      (request) => store(request, whole, request.params["*"]),
    );
  });
}
