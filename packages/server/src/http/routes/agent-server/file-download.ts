import { PlatformError } from "@sandpiper/core/errors";
import { download } from "@sandpiper/sandbox/files/file-streams";
import { hexId, parseId } from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { conversationArchive } from "../../../conversations/views/archive.ts";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { getDownloadHeaders } from "../../server/file-headers.ts";
import { sendFile } from "../../server/file-response.ts";
import type { Principal } from "../../server/principal.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { type AgentScope, makeAgentScopes, resolveFilePath } from "./agent-scope.ts";
import { absolutePath, PathParams, SandboxQuery, SlashedParams, toBadRequest } from "./file-paths.ts";

const bytes = "application/octet-stream";

/**
 * Downloads from a sandbox, and of conversations with events (agent-server.md sections 8 and 12).
 */
export function agentFileDownloadRoutes(
  app: App,
  services: Pick<HttpServices, "sandboxes" | "conversations" | "events">,
): void {
  const { sandboxes, conversations, events } = services;
  const scopes = makeAgentScopes(services);
  const [whole] = scopes as [AgentScope];
  const config = { access: "agent", failures: [400, 404, 503] } as const;
  const common = { tags: ["agent server"], produces: [bytes] };
  const options = { config, exposeHeadRoute: false };

  async function send(request: FastifyRequest, reply: FastifyReply, scope: AgentScope, named: string) {
    const place = await scope.find(request);
    const path = resolveFilePath(place, named);
    const sandbox = endingWithClient(request, await sandboxes.running(place.row.id));
    const file = await toBadRequest(download(sandbox, path));
    return sendFile(reply, file, { ...getDownloadHeaders(path), "content-type": bytes });
  }

  for (const scope of scopes) {
    app.get(
      `${scope.base}/file/download`,
      {
        ...options,
        config: { ...config, failures: [...config.failures, ...scope.failures] },
        schema: {
          ...common,
          summary: scope.summary("Download a file"),
          params: scope.params({}),
          querystring: scope.query({ path: absolutePath }),
        },
      },
      (request, reply) => send(request, reply, scope, request.query.path),
    );
  }
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
    (request, reply) => send(request, reply, whole, request.params.path),
  );
  app.get(
    "/api/file/download/*",
    { ...options, schema: { hide: true, params: SlashedParams, querystring: SandboxQuery } },
    (request, reply) => send(request, reply, whole, request.params["*"]),
  );
  const trajectory = async (principal: Principal, conversationId: string, reply: FastifyReply) => {
    const { id } = await requireConversation(conversations, principal, conversationId);
    const [shown] = await conversations.reads.batch(principal, [id]);
    // It may have been deleted between the two reads.
    if (!shown) throw new PlatformError("ConversationUnknown");
    return reply
      .headers(getDownloadHeaders(`${hexId(id)}.zip`))
      .send(await conversationArchive(events, id, shown));
  };
  const zip = {
    config: { access: "agent", failures: [413] },
    exposeHeadRoute: false,
    schema: {
      tags: ["agent server"],
      summary: "Download a conversation with its events as a zip file",
      produces: ["application/zip"],
    },
  } as const;
  app.get(
    "/api/file/download-trajectory/:conversation_id",
    { ...zip, schema: { ...zip.schema, params: Type.Object({ conversation_id: Type.String() }) } },
    ({ principal, params }, reply) => trajectory(principal, params.conversation_id, reply),
  );
  app.get(
    "/api/conversations/:conversation_id/file/download-trajectory/:trajectory_id",
    {
      ...zip,
      schema: {
        ...zip.schema,
        params: Type.Object({
          conversation_id: Type.String(),
          trajectory_id: Type.String({ description: "the same id as conversation_id" }),
        }),
      },
    },
    async ({ principal, params }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      if (parseId(params.trajectory_id) !== id) throw new PlatformError("TrajectoryForeign");
      return trajectory(principal, id, reply);
    },
  );
}
