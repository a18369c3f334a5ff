import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { resolveInside } from "@sandpiper/sandbox/files/resolve-inside";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { FastifyRequest } from "fastify";
import { type TObject, type TProperties, Type } from "typebox";
import { requireSandbox } from "../../../conversations/lookup.ts";
import type { HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";
import { requireAbsolute, sandboxKeys } from "./file-paths.ts";

/** The part of a sandbox in which a request works. */
export interface AgentPlace {
  row: SandboxRow;
  /** The conversation of a scoped request. */
  conversation: { id: string; workspace: string } | undefined;
}

/** A family of paths: below `/api` for a whole sandbox, or below one conversation. */
export interface AgentScope {
  base: "/api" | "/api/conversations/:conversation_id";
  isScoped: boolean;
  /** The conversation of a scoped path must have a sandbox. */
  failures: readonly number[];
  /** Adds the words that a scoped route needs to a summary. */
  summary(text: string): string;
  /** The schema of the path's own parameters and those of the scope, which `find` reads. */
  params<Own extends TProperties>(own: Own): TObject<Own>;
  /** The same for the query. */
  query<Own extends TProperties>(own: Own): TObject<Own>;
  /**
   * Finds where a request works. Throws BadRequest, SandboxNotFound, and below a conversation
   * ConversationNotFound and ConversationArchived.
   */
  find(request: FastifyRequest): Promise<AgentPlace>;
}

/**
 * The two families of paths for commands, files and git (agent-server-1.49.md section 3). A scoped
 * path works in the workspace of its conversation and refuses paths outside.
 */
export function makeAgentScopes({
  sandboxes,
  conversations,
}: Pick<HttpServices, "sandboxes" | "conversations">): AgentScope[] {
  const conversationKeys = { conversation_id: Type.String() };
  return [
    {
      base: "/api",
      isScoped: false,
      failures: [],
      summary: (text) => text,
      params: (own) => Type.Object(own),
      query: (own) => Type.Object({ ...own, ...sandboxKeys }) as never,
      find: async (request) => {
        const { sandbox_id: named } = request.query as { sandbox_id?: string };
        return { row: await requireAgentSandbox(sandboxes, request, named), conversation: undefined };
      },
    },
    {
      base: "/api/conversations/:conversation_id",
      isScoped: true,
      failures: [410],
      summary: (text) => `${text}, in the workspace of a conversation`,
      params: (own) => Type.Object({ ...conversationKeys, ...own }) as never,
      query: (own) => Type.Object(own),
      find: async ({ principal, params }) => {
        const { conversation_id: id } = params as { conversation_id: string };
        const found = await requireConversation(conversations, principal, id);
        return {
          row: await requireSandbox(sandboxes, found),
          conversation: { id: found.id, workspace: found.config.workingDir },
        };
      },
    },
  ];
}

/**
 * The absolute path of a file or folder that a request names; below a conversation it may be
 * relative to the workspace. Throws BadRequest for a relative path of a whole sandbox, and
 * InvalidParameter outside of the workspace.
 */
export function resolveFilePath({ conversation }: AgentPlace, path: string): string {
  return conversation ? resolveInWorkspace(conversation.workspace, path) : requireAbsolute(path);
}

/**
 * A path inside a workspace. Links inside may lead out of it, which shows no more than the
 * sandbox's own routes do. Throws InvalidParameter.
 */
export function resolveInWorkspace(workspace: string, path: string): string {
  const resolved = resolveInside(workspace, path);
  const folder = posix.resolve("/", workspace);
  if (resolved === folder || resolved.startsWith(folder === "/" ? "/" : `${folder}/`)) return resolved;
  throw new PlatformError("PathOutsideConversation");
}
