import { once } from "node:events";
import type { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { packArchive, unpackArchive } from "@sandpiper/sandbox/files/archives";
import { Success } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { openSandbox } from "./sandbox-access.ts";

const SandboxPath = Type.Object({ sandbox_id: Type.String() });
const folder = Type.String({
  minLength: 1,
  default: ".",
  description: "folder, absolute or relative to the working directory",
});
const url = "/api/v1/sandboxes/:sandbox_id/archive";
const tar = "application/x-tar";
const gzip = "application/gzip";

/**
 * Folders of a sandbox as tar streams, both ways; an addition to the contract, for the command
 * line. Archives are not buffered, so the body limit does not apply.
 */
export function sandboxArchiveRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  const route = makeRoute(["sandboxes"], { access: "agent", failures: [403, 409, 413, 415, 503, 507] });

  // In its own scope, because only here a body is a stream.
  app.register(async (scope: App) => {
    scope.addContentTypeParser([tar, gzip], (_request, payload, done) => done(null, payload));
    scope.put(
      url,
      {
        bodyLimit: Number.MAX_SAFE_INTEGER,
        ...route(`Unpack a tar (${tar}, or ${gzip} if compressed) into a folder of the sandbox`, {
          consumes: [tar, gzip],
          params: SandboxPath,
          querystring: Type.Object({
            path: folder,
            sparse: Type.Boolean({
              default: false,
              description: `${tar} only: files have holes in the form of PAX 1.0, also for a sandbox whose tar cannot read it`,
            }),
          }),
          response: { 200: Success },
        }),
      },
      async (request) => {
        if (!request.body) throw new PlatformError("MediaTypeUnsupported", { types: `${tar} or ${gzip}` });
        const sandbox = await openSandbox(sandboxes, request, request.params.sandbox_id);
        const compressed = request.headers["content-type"]?.startsWith(gzip) ?? false;
        const { path, sparse } = request.query;
        await unpackArchive(sandbox, path, request.body as Readable, { gzip: compressed, sparse });
        return { success: true };
      },
    );
  });
  app.get(
    url,
    {
      exposeHeadRoute: false,
      ...route("Pack a folder of the sandbox as a tar", {
        produces: [tar, gzip],
        params: SandboxPath,
        querystring: Type.Object({
          path: folder,
          exclude: Type.Optional(Type.Array(Type.String())),
          gzip: Type.Boolean({ default: false }),
          sparse: Type.Boolean({
            default: false,
            description: "omit holes of sparse files; GNU tar, bsdtar and Python can read the result",
          }),
        }),
      }),
    },
    async (request, reply) => {
      const sandbox = await openSandbox(sandboxes, request, request.params.sandbox_id);
      const { path, exclude, ...how } = request.query;
      const stream = await packArchive(sandbox, path, { ...how, excludes: exclude ?? [] });
      // An error before the first byte, such as a missing folder, still gets an error response.
      await once(stream, "readable");
      return reply.type(how.gzip ? gzip : tar).send(stream);
    },
  );
}
