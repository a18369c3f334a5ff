import { PlatformError } from "@sandpiper/core/errors";
import { gitChanges, gitDiff } from "@sandpiper/sandbox/files/git/git";
import { resolveInside } from "@sandpiper/sandbox/files/resolve-inside";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { GitChange, GitDiff } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { requireRunning } from "./conversation-sandbox.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });
const Query = Type.Object({
  path: Type.String({
    minLength: 1,
    description: "absolute, or relative to the conversation's working folder",
  }),
  ref: Type.Optional(Type.String({ description: "what to compare with; by default the state at the start" })),
});

/**
 * An agent's changes in a git repository of its sandbox (app-server.md section 2.9). Does not wake
 * the sandbox.
 */
export function conversationGitRoutes(
  app: App,
  services: Pick<HttpServices, "conversations" | "sandboxes">,
): void {
  const route = makeRoute(["app conversations"], { failures: [409, 502] });
  const base = "/api/v1/app-conversations/:conversation_id/git";

  app.get(
    `${base}/changes`,
    route("List changed files", {
      params: ConversationPath,
      querystring: Query,
      response: { 200: Type.Array(GitChange) },
    }),
    (request) => {
      const { params, query } = request;
      return readInSandbox(services, request, params.conversation_id, query.path, (sandbox, path) =>
        gitChanges(sandbox, path, query.ref),
      );
    },
  );
  app.get(
    `${base}/diff`,
    route("Read a file before and after the changes", {
      params: ConversationPath,
      querystring: Query,
      response: { 200: GitDiff },
    }),
    (request) => {
      const { params, query } = request;
      return readInSandbox(services, request, params.conversation_id, query.path, (sandbox, path) =>
        gitDiff(sandbox, path, query.ref),
      );
    },
  );
}

/**
 * Throws ConversationNotFound, SandboxNotFound, SandboxNotRunning, and GitFailed when the sandbox
 * is unreachable.
 */
async function readInSandbox<T>(
  { conversations, sandboxes }: Pick<HttpServices, "conversations" | "sandboxes">,
  request: FastifyRequest,
  id: string,
  path: string,
  read: (sandbox: Sandbox, path: string) => Promise<T>,
): Promise<T> {
  const row = await requireConversation(conversations, request.principal, id);
  if (!(await sandboxes.get(row.userId, row.sandboxId))) {
    throw new PlatformError("ConversationSandboxMissing");
  }
  try {
    const { id: sandboxId } = await requireRunning(sandboxes, row);
    const sandbox = endingWithClient(request, await sandboxes.running(sandboxId));
    return await read(sandbox, resolveInside(row.config.workingDir, path));
  } catch (error) {
    if (!(error instanceof PlatformError && error.status === 503)) throw error;
    throw new PlatformError("GitSandboxUnreachable", { reason: error.message }, { cause: error });
  }
}
