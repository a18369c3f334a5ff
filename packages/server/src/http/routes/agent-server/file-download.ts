import { download } from "@sandpiper/sandbox/files/file-streams";
import { hexId } from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { conversationArchive } from "../../../conversations/views/archive.ts";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { getDownloadHeaders } from "../../server/file-headers.ts";
import { sendFile } from "../../server/file-response.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";
import {
  PathParams,
  PathQuery,
  requireAbsolute,
  SandboxQuery,
  SlashedParams,
  toBadRequest,
} from "./file-paths.ts";

const bytes = "application/octet-stream";

/**
 * Downloads from a sandbox, and of conversations with events (agent-server.md sections 8 and 12).
 */
export function agentFileDownloadRoutes(
  app: App,
  { sandboxes, conversations, events }: Pick<HttpServices, "sandboxes" | "conversations" | "events">,
): void {
  const config = { access: "agent", failures: [400, 404, 503] } as const;
  const common = { tags: ["agent server"], produces: [bytes] };
  const options = { config, exposeHeadRoute: false };

  async function send(request: FastifyRequest, reply: FastifyReply, path: string, named: string | undefined) {
    requireAbsolute(path);
    const { id } = requireAgentSandbox(sandboxes, request, named);
    const sandbox = endingWithClient(request, await sandboxes.running(id));
    const file = await toBadRequest(download(sandbox, path));
    return sendFile(reply, file, { ...getDownloadHeaders(path), "content-type": bytes });
  }

  app.get(
    "/api/file/download",
    { ...options, schema: { ...common, summary: "Download a file", querystring: PathQuery } },
    (request, reply) => send(request, reply, request.query.path, request.query.sandbox_id),
  );
  app.get(
    "/api/file/download/:path",
    {
      ...options,
      schema: {
        ...common,
        summary: "Download a file; its path is one encoded segment",
        params: PathParams,
        querystring: SandboxQuery,
      },
    },
    (request, reply) => send(request, reply, request.params.path, request.query.sandbox_id),
  );
  app.get(
    "/api/file/download/*",
    { ...options, schema: { hide: true, params: SlashedParams, querystring: SandboxQuery } },
    (request, reply) => send(request, reply, request.params["*"], request.query.sandbox_id),
  );
  app.get(
    "/api/file/download-trajectory/:conversation_id",
    {
      config: { access: "agent", failures: [413] },
      exposeHeadRoute: false,
      schema: {
        tags: ["agent server"],
        summary: "Download a conversation with its events as a zip file",
        produces: ["application/zip"],
        params: Type.Object({ conversation_id: Type.String() }),
      },
    },
    ({ principal, params }, reply) => {
      const { id } = requireConversation(conversations, principal, params.conversation_id);
      const [shown] = conversations.reads.batch(principal, [id]);
      reply.headers(getDownloadHeaders(`${hexId(id)}.zip`)).send(conversationArchive(events, id, shown!));
    },
  );
}
