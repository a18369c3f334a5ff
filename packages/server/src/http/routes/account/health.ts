import { statfs } from "node:fs/promises";
import { availableParallelism, freemem, loadavg, totalmem } from "node:os";
import { usableTools } from "@sandpiper/agent/tools/choose";
import { ServerInfo, ServerStatus } from "@sandpiper/wire";
import { type TSchema, Type } from "typebox";
import { sendJson } from "../../server/json-text.ts";
import type { App, HttpServices } from "../../server/services.ts";

/** The agent-server release whose API this server implements; clients reject unknown versions. */
const agentServerVersion = "1.52.0";

/**
 * Promises to clients (agent-server-1.58.md section 2). With the first one they send commands,
 * files and git below a conversation.
 */
const capabilities = [
  "conversation_runtime_routes_v1",
  "profile_secret_scope_v1",
  "idempotent_conversation_create_v1",
  "tool_catalog_v1",
  "agent_profile_draft_materialize_v1",
  "skill_catalog_v1",
];

/**
 * Routes without a key (app-server.md section 0, agent-server.md section 2), and the agent server's
 * tools. The two surfaces report health with different bodies.
 */
export function healthRoutes(app: App, { config }: Pick<HttpServices, "config">): void {
  const startedAt = Date.now();
  let activeAt = startedAt;
  app.addHook("onResponse", (request, _reply, done) => {
    if (request.principal) activeAt = Date.now();
    done();
  });

  const open = { access: "public" } as const;
  const agent = { view: "agent" };
  const tags = ["health"];
  const answer = <Answer extends TSchema>(summary: string, schema: Answer) => ({
    config: open,
    schema: { tags, summary, security: [], response: { 200: schema } },
  });
  app.get("/alive", answer("The process answers", ServerStatus), () => ({ status: "ok" }));
  for (const [path, status] of [
    ["/health", "ok"],
    ["/ready", "ready"],
  ] as const) {
    app.get(path, answer("The server accepts requests", Type.String()), (_request, reply) => {
      sendJson(reply, '"OK"');
    });
    app.get(path, { constraints: agent, ...answer("The server accepts requests", ServerStatus) }, () => ({
      status,
    }));
  }

  const about = async () => {
    const disk = await statfs(config.dataDir);
    const now = Date.now();
    return {
      uptime: (now - startedAt) / 1000,
      idle_time: (now - activeAt) / 1000,
      resources: {
        cpu: { count: availableParallelism(), load_1m: loadavg()[0]! },
        memory: { total: totalmem(), available: freemem(), process: process.memoryUsage.rss() },
        disk: { total: disk.blocks * disk.bsize, available: disk.bavail * disk.bsize },
      },
      title: "Sandpiper",
      version: agentServerVersion,
      sdk_version: agentServerVersion,
      tools_version: agentServerVersion,
      workspace_version: agentServerVersion,
      build_git_sha: "unknown",
      build_git_ref: "unknown",
      python_version: "",
      usable_tools: usableTools,
      runtime_idle_timeout_seconds: config.idlePauseMs > 0 ? config.idlePauseMs / 1000 : null,
      max_foreground_terminal_timeout_seconds: null,
      capabilities,
      conversation_runtime: "local" as const,
      available_conversation_runtimes: [],
      app_backend_ingress_url: null,
      docs: "/docs",
      redoc: null,
    };
  };
  app.get("/server_info", answer("Uptime, load, version and tools", ServerInfo), about);
  app.get("/", { constraints: agent, ...answer("Uptime, load, version and tools", ServerInfo) }, about);
  app.get(
    "/api/tools/",
    {
      config: { access: "agent" },
      schema: {
        tags,
        summary: "List the names of tools that agents can have",
        response: { 200: Type.Array(Type.String()) },
      },
    },
    () => usableTools,
  );
}
