import { PlatformError } from "@sandpiper/core/errors";
import { readFile } from "@sandpiper/sandbox/files/files";
import { listTree } from "@sandpiper/sandbox/files/folder-pages";
import { resolveInside } from "@sandpiper/sandbox/files/resolve-inside";
import { ConversationHooks, ConversationSkills } from "@sandpiper/wire";
import { Type } from "typebox";
import { parseHooksFile } from "../../../conversations/project/parse-hooks-file.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation, visibleConversation } from "../account/conversation-access.ts";
import { requireRunning, sandboxIfRunning } from "./conversation-sandbox.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** Largest file that is read, bytes. */
const maxFileBytes = 5 * 2 ** 20;
/** Most files of a folder that are listed. */
const maxFiles = 2_000;
/** Time for reading one, ms: the file may be a pipe of the kernel's. */
const readMs = 10_000;

/** What lies in a conversation's sandbox now: files, its skills, its hooks (app-server.md section 2.9). A paused sandbox is not woken. */
export function conversationReadRoutes(
  app: App,
  { conversations, sandboxes }: Pick<HttpServices, "conversations" | "sandboxes">,
): void {
  const tags = ["app conversations"];
  const base = "/api/v1/app-conversations/:conversation_id";

  app.get(
    `${base}/file`,
    {
      schema: {
        tags,
        summary:
          "Read a text file of the sandbox; an empty text where that is not possible, for whatever reason",
        params: ConversationPath,
        querystring: Type.Object({
          file_path: Type.String({
            default: "/workspace/project/PLAN.md",
            description: "relative ones start at the conversation's working folder",
          }),
        }),
        response: { 200: Type.String() },
      },
    },
    async ({ principal, params, query }, reply) => {
      const row = visibleConversation(conversations, principal, params.conversation_id);
      const sandbox = row && (await sandboxIfRunning(sandboxes, row));
      const path = resolveInside(row?.config.workingDir ?? "/", query.file_path);
      const found =
        sandbox &&
        (await readFile(sandbox, path, { maxBytes: maxFileBytes, signal: AbortSignal.timeout(readMs) }).catch(
          () => undefined,
        ));
      // A JSON text, not plain text.
      return reply
        .type("application/json")
        .send(JSON.stringify(found?.kind === "file" ? found.content.toString() : ""));
    },
  );
  app.get(
    `${base}/files`,
    {
      config: { failures: [403, 409, 410, 503] },
      schema: {
        tags,
        summary:
          "List the files below a folder of the sandbox, 2,000 at most, without those of tools (.git, node_modules, …)",
        params: ConversationPath,
        querystring: Type.Object({
          path: Type.String({
            default: ".",
            description: "relative ones start at the conversation's working folder",
          }),
        }),
        response: { 200: Type.Array(Type.String({ description: "relative to `path`" })) },
      },
    },
    async ({ principal, params, query }) => {
      const row = requireConversation(conversations, principal, params.conversation_id);
      const sandbox = await sandboxes.running(requireRunning(sandboxes, row).id);
      return listTree(sandbox, resolveInside(row.config.workingDir, query.path), maxFiles);
    },
  );
  app.get(
    `${base}/skills`,
    {
      config: { errors: "error" },
      schema: {
        tags,
        summary: "List the skills in the sandbox; none while it does not run",
        params: ConversationPath,
        response: { 200: ConversationSkills },
      },
    },
    async ({ principal, params }) => {
      const row = requireConversation(conversations, principal, params.conversation_id);
      const sandbox = await sandboxIfRunning(sandboxes, row);
      const found = sandbox ? await conversations.skills(row, sandbox) : [];
      return {
        skills: found.map(({ name, type, content, triggers }) => ({ name, type, content, triggers })),
      };
    },
  );
  app.get(
    `${base}/hooks`,
    {
      config: { errors: "error", failures: [409, 422] },
      schema: {
        tags,
        summary: "List the hooks that the project's .openhands/hooks.json has now",
        params: ConversationPath,
        response: { 200: ConversationHooks },
      },
    },
    async ({ principal, params }) => {
      const row = requireConversation(conversations, principal, params.conversation_id);
      const sandbox = await sandboxIfRunning(sandboxes, row);
      if (!sandbox)
        throw new PlatformError(
          "SandboxNotRunning",
          "The sandbox is not running: resume it to read its hooks.",
        );
      const file = await readFile(sandbox, resolveInside(row.config.workingDir, ".openhands/hooks.json"), {
        maxBytes: 2 ** 20,
      });
      return { hooks: file.kind === "file" ? parseHooksFile(file.content.toString()) : [] };
    },
  );
}
