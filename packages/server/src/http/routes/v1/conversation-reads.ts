import { PlatformError } from "@sandpiper/core/errors";
import { readFile } from "@sandpiper/sandbox/files/files";
import { resolveInside } from "@sandpiper/sandbox/files/resolve-inside";
import { listTree } from "@sandpiper/sandbox/files/tree-listing";
import { ConversationHooks, ConversationSkills } from "@sandpiper/wire";
import { Type } from "typebox";
import { parseHooksFile } from "../../../conversations/project/parse-hooks-file.ts";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation, visibleConversation } from "../account/conversation-access.ts";
import { findRunningSandbox, requireRunning } from "./conversation-sandbox.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/** Maximum file that is read, bytes. */
const maxFileBytes = 5 * 2 ** 20;
/** Maximum listed files of a folder. */
const maxFiles = 2_000;
/** Timeout of a read, ms; the file may be a pipe. */
const readTimeoutMs = 10_000;

/**
 * Files, skills and hooks in a conversation's sandbox (app-server.md section 2.9). Does not wake
 * the sandbox.
 */
export function conversationReadRoutes(
  app: App,
  { conversations, sandboxes }: Pick<HttpServices, "conversations" | "sandboxes">,
): void {
  const route = makeRoute(["app conversations"]);
  const base = "/api/v1/app-conversations/:conversation_id";

  app.get(
    `${base}/file`,
    route("Read a text file of the sandbox; empty if that fails for any reason", {
      params: ConversationPath,
      querystring: Type.Object({
        file_path: Type.String({
          default: "/workspace/project/PLAN.md",
          description: "absolute, or relative to the conversation's working folder",
        }),
      }),
      response: { 200: Type.String() },
    }),
    async ({ principal, params, query }, reply) => {
      const row = await visibleConversation(conversations, principal, params.conversation_id);
      const sandbox = row && (await findRunningSandbox(sandboxes, row));
      const path = resolveInside(row?.config.workingDir ?? "/", query.file_path);
      const found =
        sandbox &&
        (await readFile(sandbox, path, {
          maxBytes: maxFileBytes,
          signal: AbortSignal.timeout(readTimeoutMs),
        }).catch(() => undefined));
      // The contract wants a JSON string, not plain text.
      return reply
        .type("application/json")
        .send(JSON.stringify(found?.kind === "file" ? found.content.toString() : ""));
    },
  );
  app.get(
    `${base}/files`,
    route(
      "List up to 2,000 files below a folder of the sandbox, without those of tools (.git, node_modules, …)",
      {
        params: ConversationPath,
        querystring: Type.Object({
          path: Type.String({
            default: ".",
            description: "absolute, or relative to the conversation's working folder",
          }),
          after: Type.Optional(
            Type.String({ minLength: 1, description: "begin after this path, the last of the page before" }),
          ),
        }),
        response: { 200: Type.Array(Type.String({ description: "relative to `path`" })) },
      },
      { failures: [403, 409, 410, 503] },
    ),
    async (request) => {
      const { principal, params, query } = request;
      const row = await requireConversation(conversations, principal, params.conversation_id);
      const sandbox = endingWithClient(
        request,
        await sandboxes.running((await requireRunning(sandboxes, row)).id),
      );
      const page = { limit: maxFiles, after: query.after };
      return listTree(sandbox, resolveInside(row.config.workingDir, query.path), page);
    },
  );
  app.get(
    `${base}/skills`,
    route(
      "List the skills in the sandbox; empty unless it runs",
      { params: ConversationPath, response: { 200: ConversationSkills } },
      { errors: "error" },
    ),
    async ({ principal, params }) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      const sandbox = await findRunningSandbox(sandboxes, row);
      const found = sandbox ? await conversations.skills(row, sandbox) : [];
      return {
        skills: found.map(({ name, type, content, triggers }) => ({ name, type, content, triggers })),
      };
    },
  );
  app.get(
    `${base}/hooks`,
    route(
      "List the hooks of the project's .openhands/hooks.json",
      { params: ConversationPath, response: { 200: ConversationHooks } },
      { errors: "error", failures: [409, 422] },
    ),
    async ({ principal, params }) => {
      const row = await requireConversation(conversations, principal, params.conversation_id);
      const sandbox = await findRunningSandbox(sandboxes, row);
      if (!sandbox) throw new PlatformError("HooksNeedSandbox");
      const file = await readFile(sandbox, resolveInside(row.config.workingDir, ".openhands/hooks.json"), {
        maxBytes: 2 ** 20,
      });
      return { hooks: file.kind === "file" ? parseHooksFile(file.content.toString()) : [] };
    },
  );
}
