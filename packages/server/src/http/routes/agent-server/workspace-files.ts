import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { type Download, download } from "@sandpiper/sandbox/files/file-streams";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { getFrameAncestors } from "../../preview/preview.ts";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { getInlineHeaders } from "../../server/file-headers.ts";
import { sendFile } from "../../server/file-response.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { getPublicUrl } from "../../server/urls.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { toBadRequest } from "./file-paths.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });
const file = Type.String({ maxLength: 4_000, description: "path of the file in the workspace" });

/**
 * Shows files of a conversation's workspace in a browser, such as a report (agent-server.md section
 * 3), also with the cookie of `POST /api/auth/workspace-session`. A folder shows its `index.html`.
 * Pages have no origin.
 */
export function workspaceFileRoutes(
  app: App,
  { conversations, sandboxes, config }: Pick<HttpServices, "conversations" | "sandboxes" | "config">,
): void {
  const options = {
    config: { access: "agent", workspaceCookie: true, failures: [400, 404, 503] },
    exposeHeadRoute: false,
  } as const;
  const leadsOn = Type.Null({
    description: "A folder: redirects to the same URL with a final slash, which shows its index.html",
  });
  const common = {
    tags: ["agent server"],
    produces: ["*/*"],
    response: { 200: Type.Unsafe<unknown>({}), 302: leadsOn },
  };
  const base = "/api/conversations/:conversation_id/workspace";

  async function show(
    request: FastifyRequest,
    reply: FastifyReply,
    id: string,
    path: string,
  ): Promise<FastifyReply> {
    if (request.headers["service-worker"] !== undefined) {
      throw new PlatformError("WorkspaceServiceWorker");
    }
    const row = await requireConversation(conversations, request.principal, id);
    const { workingDir } = row.config;
    const wanted = posix.join(workingDir, path);
    if (
      wanted !== workingDir &&
      !wanted.startsWith(workingDir.endsWith("/") ? workingDir : `${workingDir}/`)
    ) {
      throw new PlatformError("PathOutsideWorkspace");
    }
    if (!(await sandboxes.get(row.userId, row.sandboxId))) {
      throw new PlatformError("ConversationSandboxMissing");
    }
    const sandbox = endingWithClient(request, await sandboxes.running(row.sandboxId));
    const headers = (name: string) =>
      getInlineHeaders(name, getFrameAncestors(getPublicUrl(config, app.server), config.corsOrigins));
    const found = await openFileOrFolder(sandbox, wanted);
    if (found !== "folder") return sendFile(reply, found, headers(wanted));
    const url = request.url.split("?", 1)[0]!;
    // Links of the page are relative to its folder.
    if (!url.endsWith("/")) return reply.redirect(`./${url.slice(url.lastIndexOf("/") + 1)}/`);
    const index = await toBadRequest(download(sandbox, posix.join(wanted, "index.html")));
    return sendFile(reply, index, headers("index.html"));
  }

  app.get(
    base,
    { ...options, schema: { ...common, summary: "Show a workspace's index.html", params: ConversationPath } },
    (request, reply) => show(request, reply, request.params.conversation_id, "."),
  );
  app.get(
    `${base}/:file_path`,
    {
      ...options,
      schema: {
        ...common,
        summary: "Show a file of a workspace",
        params: Type.Object({ ...ConversationPath.properties, file_path: file }),
      },
    },
    (request, reply) => show(request, reply, request.params.conversation_id, request.params.file_path),
  );
  app.get(
    `${base}/*`,
    {
      ...options,
      schema: { hide: true, params: Type.Object({ ...ConversationPath.properties, "*": file }) },
    },
    (request, reply) => show(request, reply, request.params.conversation_id, request.params["*"]),
  );
}

async function openFileOrFolder(sandbox: Sandbox, path: string): Promise<Download | "folder"> {
  try {
    return await download(sandbox, path);
  } catch (error) {
    if (error instanceof PlatformError && error.code === "NotAFile") return "folder";
    throw error;
  }
}
