import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startProgram, stopProgram } from "./process.ts";

const key = "sp_bench-key-0123456789abcdefghijklmnopqrstuvwx";
/** The file that starts the command line, as `bin/sandpiper` finds it. */
export const serverMain = execFileSync(fileURLToPath(new URL("../scripts/server-main", import.meta.url)), {
  encoding: "utf8",
}).trim();

/** A server in its own process with its own data folder. */
export interface BenchServer {
  url: string;
  pid: number;
  /** Headers of each request. */
  headers: Record<string, string>;
  /** Makes a sandbox and waits until it runs. */
  sandbox(): Promise<string>;
  /** The processor time of its longest round of the event loop since the last call, ms. */
  longestRound(): Promise<number>;
  /** Removes its sandboxes, ends it, and removes its files. */
  end(): Promise<void>;
}

/** `prepare` fills the data folder before the server starts. */
export async function startBenchServer(prepare?: (dataDir: string) => Promise<void>): Promise<BenchServer> {
  const dataDir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  await prepare?.(dataDir);
  const probe = join(dataDir, "rounds.sock");
  const env = {
    ROUND_PROBE: probe,
    NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ""} --import=${new URL("./round-probe.ts", import.meta.url)}`,
    SANDPIPER_DATA: dataDir,
    SANDPIPER_API_KEY: key,
    SANDPIPER_PORT: "0",
    SANDPIPER_LOG_LEVEL: "error",
    SANDPIPER_MAX_REQUESTS: "1000000",
  };
  const { child, match } = await startProgram([serverMain, "serve"], env, /http:\/\/[\w.:]+\d/);
  const url = match[0];
  const headers = { "X-Session-API-Key": key };
  const ask = async (method: string, path: string) => {
    const response = await fetch(`${url}/api/v1/sandboxes${path}`, { method, headers });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<unknown>;
  };
  const all = async () =>
    ((await ask("GET", "/search")) as { items: { id: string; status: string }[] }).items;
  return {
    ...{ url, headers, pid: child.pid! },
    async sandbox() {
      const { id } = (await ask("POST", "")) as { id: string };
      while ((await all()).find((one) => one.id === id)?.status !== "RUNNING") await delay(10);
      return id;
    },
    async longestRound() {
      let text = "";
      for await (const chunk of connect(probe)) text += chunk;
      return Number(text);
    },
    async end() {
      for (const { id } of await all()) await ask("DELETE", `/${id}?sandbox_id=${id}`);
      await stopProgram(child);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
