import { PlatformError } from "@sandpiper/core/errors";
import { ConversationResponse, hexId, type LegacyStatus } from "@sandpiper/wire";
import { Type } from "typebox";
import { getExposedUrls } from "../../server/exposed-urls.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { Principal } from "../../server/principal.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/**
 * A conversation's sandbox over V0 routes: id, start and stop, URLs (legacy-gui.md sections 4.3 and
 * 8).
 */
export function legacySandboxRoutes(
  app: App,
  { conversations, sandboxes, config }: Pick<HttpServices, "conversations" | "sandboxes" | "config">,
): void {
  const tags = ["legacy conversations"];
  const route = makeRoute(tags);
  const errors = "error";
  const base = "/api/conversations/:conversation_id";
  const find = async (principal: Principal, path: { conversation_id: string }) => {
    const row = await requireConversation(conversations, principal, path.conversation_id);
    return { row, sandbox: await sandboxes.get(row.userId, row.sandboxId) };
  };

  app.get(
    `${base}/config`,
    route(
      "Read the id of the sandbox",
      {
        params: ConversationPath,
        response: { 200: Type.Object({ runtime_id: Type.String(), session_id: Type.String() }) },
      },
      { errors },
    ),
    async ({ principal, params }) => {
      const { row } = await find(principal, params);
      return { runtime_id: row.sandboxId, session_id: hexId(row.id) };
    },
  );
  const verbs = {
    start: { method: "resume", status: "RUNNING", summary: "Resume the sandbox" },
    stop: { method: "pause", status: "STOPPED", summary: "Pause the sandbox" },
  } as const satisfies Record<string, { method: "pause" | "resume"; status: LegacyStatus; summary: string }>;
  for (const verb of ["start", "stop"] as const) {
    const { method, status, summary } = verbs[verb];
    app.post(
      `${base}/${verb}`,
      route(
        summary,
        { params: ConversationPath, response: { 200: ConversationResponse } },
        { errors, failures: [410, 503] },
      ),
      async ({ principal, params }) => {
        const { row, sandbox } = await find(principal, params);
        if (!sandbox) throw new PlatformError("ConversationSandboxGone");
        await sandboxes[method](row.userId, sandbox.id);
        return { status: "ok", conversation_id: hexId(row.id), message: null, conversation_status: status };
      },
    );
  }
  app.get(
    `${base}/web-hosts`,
    route(
      "List the URLs and ports of servers in the sandbox",
      {
        params: ConversationPath,
        response: { 200: Type.Object({ hosts: Type.Record(Type.String(), Type.Integer()) }) },
      },
      { errors, grantsAccess: true },
    ),
    async ({ principal, params }) => {
      const { sandbox } = await find(principal, params);
      const urls =
        sandbox?.status === "RUNNING"
          ? getExposedUrls({ row: sandbox, source: principal.source }, config, app.server)
          : [];
      const workers = urls.filter(({ name }) => name.startsWith("WORKER_"));
      return { hosts: Object.fromEntries(workers.map(({ url, port }) => [url, port])) };
    },
  );
  app.get(
    `${base}/vscode-url`,
    {
      // The GUI sends the session key here, which grants nothing.
      config: { errors, access: "agent" },
      schema: {
        tags,
        summary: "Read the URL of the sandbox's editor: always null",
        params: ConversationPath,
        response: { 200: Type.Object({ vscode_url: Type.Null() }) },
      },
    },
    async ({ principal, params }) => {
      await find(principal, params);
      return { vscode_url: null };
    },
  );
}
