import { statfs } from "node:fs/promises";
import { availableParallelism, freemem, loadavg, totalmem } from "node:os";
import { ServerInfo } from "@sandpiper/wire";
import { Type } from "typebox";
import { sendJson } from "./json-text.ts";
import type { App, HttpServices } from "./services.ts";

/** The agent-server release whose wire this server speaks; clients refuse versions that they cannot read. */
const agentServerVersion = "1.43.1";

/** Routes that need no key (app-server.md section 0, agent-server.md section 2). */
export function healthRoutes(app: App, { config }: Pick<HttpServices, "config">): void {
  const startedAt = Date.now();
  let activeAt = startedAt;
  app.addHook("onResponse", (request, _reply, done) => {
    if (request.principal) activeAt = Date.now();
    done();
  });

  const open = { access: "public" } as const;
  const answer = (summary: string, schema: ReturnType<typeof Type.String> | ReturnType<typeof Type.Object>) => ({
    config: open,
    schema: { tags: ["health"], summary, security: [], response: { 200: schema } },
  });
  app.get("/alive", answer("The process answers", Type.Object({ status: Type.String() })), () => ({ status: "ok" }));
  for (const path of ["/health", "/ready"]) {
    app.get(path, answer("The server takes requests", Type.String()), (_request, reply) => sendJson(reply, '"OK"'));
  }
  app.get("/server_info", answer("Uptime, load and version", ServerInfo), async () => {
    const now = Date.now();
    const disk = await statfs(config.dataDir);
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
      docs: "/docs",
    };
  });
}
