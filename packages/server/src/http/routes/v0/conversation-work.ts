import { PlatformError } from "@sandpiper/core/errors";
import { trimTail } from "@sandpiper/core/trim";
import { readFile } from "@sandpiper/sandbox/files/files";
import { listFolder } from "@sandpiper/sandbox/files/folder-pages";
import { gitChanges, gitDiff } from "@sandpiper/sandbox/files/git/git";
import { resolveInside } from "@sandpiper/sandbox/files/resolve-inside";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { GitDiff } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { ConversationRow } from "../../../store/conversation-store.ts";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { requireRunning } from "../v1/conversation-sandbox.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** Maximum listed names of a folder. */
const maxNames = 1_000;
/** Maximum file that is read, bytes. */
const maxFileBytes = 5 * 2 ** 20;
/** V0's letters for changes. */
const letters = { ADDED: "A", DELETED: "D", UPDATED: "M", MOVED: "R" } as const;

/**
 * Files, changes and skills of a conversation's running sandbox over V0 routes; paths are relative
 * to the working folder.
 */
export function legacyWorkRoutes(
  app: App,
  { conversations, sandboxes }: Pick<HttpServices, "conversations" | "sandboxes">,
): void {
  const route = makeRoute(["legacy conversations"], { errors: "error", failures: [400, 409, 410, 502, 503] });
  const base = "/api/conversations/:conversation_id";
  const open = async (
    request: FastifyRequest,
    path: { conversation_id: string },
  ): Promise<[Sandbox, ConversationRow]> => {
    const row = await requireConversation(conversations, request.principal, path.conversation_id);
    const sandbox = await sandboxes.running((await requireRunning(sandboxes, row)).id);
    return [endingWithClient(request, sandbox), row];
  };

  app.get(
    `${base}/list-files`,
    route("List a folder; names of folders end in a slash", {
      params: ConversationPath,
      querystring: Type.Object({ path: Type.Optional(Type.String()) }),
      response: { 200: Type.Array(Type.String()) },
    }),
    async (request) => {
      const { query } = request;
      const [sandbox, row] = await open(request, request.params);
      const { entries } = await listFolder(sandbox, resolveInside(row.config.workingDir, query.path ?? ""), {
        limit: maxNames,
      });
      const before = query.path ? `${trimTail(query.path, "/")}/` : "";
      return entries.map(({ name, kind }) => `${before}${name}${kind === "directory" ? "/" : ""}`);
    },
  );
  app.get(
    `${base}/select-file`,
    route(
      "Read a text file",
      {
        params: ConversationPath,
        querystring: Type.Object({ file: Type.String({ minLength: 1 }) }),
        response: { 200: Type.Object({ code: Type.String() }) },
      },
      { failures: [400, 403, 404, 409, 410, 415, 502, 503] },
    ),
    async (request) => {
      const { query } = request;
      const [sandbox, row] = await open(request, request.params);
      const file = await readFile(sandbox, resolveInside(row.config.workingDir, query.file), {
        maxBytes: maxFileBytes,
      });
      if (file.kind === "missing") throw new PlatformError("SandboxFileMissing", { path: query.file });
      if (file.kind !== "file") throw new PlatformError("SandboxFileUnreadable", { path: query.file });
      if (file.content.includes(0)) throw new PlatformError("SandboxFileNotText", { path: query.file });
      return { code: file.content.toString() };
    },
  );
  app.get(
    `${base}/git/changes`,
    route("List changed files", {
      params: ConversationPath,
      response: { 200: Type.Array(Type.Object({ status: Type.String(), path: Type.String() })) },
    }),
    async (request) => {
      const [sandbox, row] = await open(request, request.params);
      const changes = await gitChanges(sandbox, row.config.workingDir);
      return changes.map(({ status, path }) => ({ status: letters[status], path }));
    },
  );
  app.get(
    `${base}/git/diff`,
    route("Read a file before and after the changes", {
      params: ConversationPath,
      querystring: Type.Object({ path: Type.String({ minLength: 1 }) }),
      response: { 200: GitDiff },
    }),
    async (request) => {
      const { query } = request;
      const [sandbox, row] = await open(request, request.params);
      return gitDiff(sandbox, resolveInside(row.config.workingDir, query.path));
    },
  );
  app.get(
    `${base}/microagents`,
    route("List the skills in the sandbox", {
      params: ConversationPath,
      response: {
        200: Type.Object({
          microagents: Type.Array(
            Type.Object({
              name: Type.String(),
              type: Type.String(),
              content: Type.String(),
              triggers: Type.Array(Type.String()),
              inputs: Type.Array(Type.Unknown()),
              tools: Type.Array(Type.String()),
            }),
          ),
        }),
      },
    }),
    async (request) => {
      const [sandbox, row] = await open(request, request.params);
      const skills = await conversations.skills(row, sandbox);
      const show = ({ name, type, content, triggers }: (typeof skills)[number]) => ({
        name,
        type,
        content,
        triggers,
        inputs: [],
        tools: [],
      });
      return { microagents: skills.map(show) };
    },
  );
}
