import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeSandboxes } from "../../support/platform.ts";
import { type ServerProcess, startServerProcess } from "../../support/server-process.ts";
import { otherModel, type Task } from "./task.ts";

/** When a server is killed: before or after a commit, or just after its announcement. */
export interface KillPoint {
  when: "before" | "after" | "announced";
  at: number;
}

/** A server with the settings of a task, on its own data folder, that can be restarted. */
export interface TaskServer {
  readonly dataDir: string;
  /** The current server. */
  server: ServerProcess;
  /** Starts the next server, which is to die so; nothing: it lives. */
  restart(death?: KillPoint): Promise<void>;
  close(): Promise<void>;
}

export async function openTaskServer(
  task: Task,
  at: { mcpUrl: string; modelUrl: string },
): Promise<TaskServer> {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-append-"));
  const start = (death?: KillPoint) =>
    startServerProcess(dataDir, {
      NODE_OPTIONS: `--import=${new URL("./kill-at-commit.ts", import.meta.url)}`,
      KILL_AT_COMMIT: death ? `${death.when}:${death.at}` : "",
      SANDPIPER_MAX_REQUESTS: "100000",
      SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
    });
  const site: TaskServer = {
    dataDir,
    server: await start(),
    async restart(death) {
      await site.server.end("SIGTERM");
      site.server = await start(death);
    },
    async close() {
      await removeSandboxes(site.server.call).catch(() => {});
      await site.server.end("SIGTERM");
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  const set = async (path: string, body: unknown) => {
    const { status, body: answer } = await site.server.call("POST", path, body);
    if (status >= 300) throw new Error(JSON.stringify(answer));
  };
  try {
    const access = { llm_api_key: "sk-test", llm_base_url: at.modelUrl };
    await set("/api/settings", { llm_model: "openai/gpt-4o-mini", ...access, ...task.legacySettings });
    const profile = { model: otherModel, api_key: "sk-test", base_url: at.modelUrl };
    await set("/api/v1/settings/profiles/other", { llm: profile });
    await set("/api/v1/settings", { agent_settings_diff: task.settings(at) });
  } catch (error) {
    await site.close();
    throw error;
  }
  return site;
}
