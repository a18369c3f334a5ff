import { Readable } from "node:stream";
import { download, upload } from "@sandpiper/sandbox/files/file-streams";
import { type FolderEntry, listFolder, remove } from "@sandpiper/sandbox/files/folder-pages";
import { FilePage, isoTime, Success } from "@sandpiper/wire";
import { Type } from "typebox";
import { getDownloadHeaders } from "../../server/file-headers.ts";
import { sendFile, withFileHeaders } from "../../server/file-response.ts";
import { makeRoute } from "../../server/make-route.ts";
import { pageKeys, toWirePage } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { openSandbox } from "./sandbox-access.ts";

const SandboxPath = Type.Object({ sandbox_id: Type.String() });
const path = Type.String({ minLength: 1, description: "absolute, or relative to the working directory" });
const FileQuery = Type.Object({ path });
const url = "/api/v1/sandboxes/:sandbox_id/files";

/**
 * Files of a sandbox as streams, with its user's rights; an addition to the contract. Files are not
 * buffered, so the body limit does not apply. Links are resolved inside the sandbox.
 */
export function sandboxFileRoutes(app: App, { sandboxes }: Pick<HttpServices, "sandboxes">): void {
  const route = makeRoute(["sandboxes"], { access: "agent", failures: [403, 409, 413, 503, 507] });

  app.get(
    url,
    {
      exposeHeadRoute: false,
      ...route("Download a file of the sandbox; HEAD returns its size, type and time", {
        params: SandboxPath,
        querystring: FileQuery,
      }),
    },
    async (request, reply) => {
      const sandbox = await openSandbox(sandboxes, request, request.params.sandbox_id);
      const file = await download(sandbox, request.query.path);
      return sendFile(reply, file, getDownloadHeaders(request.query.path));
    },
  );
  app.head(
    url,
    route("Size, type and time of a file of the sandbox", { params: SandboxPath, querystring: FileQuery }),
    async (request, reply) => {
      const sandbox = await openSandbox(sandboxes, request, request.params.sandbox_id);
      const file = await download(sandbox, request.query.path, "facts");
      return reply.headers(withFileHeaders(getDownloadHeaders(request.query.path), file, file.size)).send();
    },
  );
  // In its own scope, because only here a body of any type is a stream.
  app.register(async (scope: App) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
    scope.put(
      url,
      {
        bodyLimit: Number.MAX_SAFE_INTEGER,
        ...route(
          "Upload a file into the sandbox: the body is its content; creates missing folders",
          {
            consumes: ["application/octet-stream"],
            params: SandboxPath,
            querystring: FileQuery,
            response: { 200: Success },
          },
          { failures: [403, 409, 413, 415, 503, 507] },
        ),
      },
      async (request) => {
        const sandbox = await openSandbox(sandboxes, request, request.params.sandbox_id);
        const length = request.headers["content-length"];
        const body = (request.body as Readable | undefined) ?? Readable.from([]);
        const size = length !== undefined ? Number(length) : request.body ? undefined : 0;
        await upload(sandbox, request.query.path, body, size);
        return { success: true };
      },
    );
  });
  app.delete(
    url,
    route("Remove a file or a folder of the sandbox", {
      params: SandboxPath,
      querystring: Type.Object({
        path,
        recursive: Type.Boolean({
          default: false,
          description: "delete a folder with its content; by default only an empty one",
        }),
      }),
      response: { 200: Success },
    }),
    async (request) => {
      const sandbox = await openSandbox(sandboxes, request, request.params.sandbox_id);
      await remove(sandbox, request.query.path, request.query.recursive);
      return { success: true };
    },
  );
  app.get(
    `${url}/list`,
    route("List a folder of the sandbox by name", {
      params: SandboxPath,
      querystring: Type.Object({ path: Type.String({ minLength: 1, default: "." }), ...pageKeys }),
      response: { 200: FilePage },
    }),
    async (request) => {
      const sandbox = await openSandbox(sandboxes, request, request.params.sandbox_id);
      const { path, limit, page_id } = request.query;
      const after = page_id === undefined ? undefined : Buffer.from(page_id, "base64url").toString();
      const { entries, next } = await listFolder(sandbox, path, { limit, after });
      const nextPageId = next === undefined ? null : Buffer.from(next).toString("base64url");
      return toWirePage({ items: entries.map(toFileEntry), nextPageId });
    },
  );
}

function toFileEntry({ name, kind, size, mode, modifiedAt }: FolderEntry) {
  return { name, kind, size, mode: mode.toString(8).padStart(4, "0"), modified_at: isoTime(modifiedAt) };
}
