import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Exchange } from "./agent-model.ts";
import type { Memory, Noted } from "./agent-server.ts";

const key = "sp_bench-key-0123456789abcdefghijklmnopqrstuvwx";

/** A server and a model, each in a process of its own. */
export interface AgentBench {
  /** The server's data folder. */
  dir: string;
  url: string;
  modelUrl: string;
  /** Makes a conversation run this many steps; resolves when the server took the message. */
  begin(conversationId: string, name: string, steps: number): Promise<void>;
  /** Waits until no conversation is running. */
  rested(everyMs?: number): Promise<void>;
  /** The model's exchanges since the last time, by name. */
  exchanges(): Promise<Map<string, Exchange[]>>;
  noted(): Promise<Noted>;
  /** After a collection, with everything unloaded that can be unless `what` is "loaded". */
  memory(what?: "memory" | "loaded"): Promise<Memory>;
  /** Headers of each request. */
  headers: Record<string, string>;
  /** Asks the server; throws for an error. */
  call<T>(method: string, path: string, body?: unknown): Promise<T>;
  removeSandboxes(): Promise<void>;
  end(): Promise<void>;
}

/** `prepare` fills the data folder first; `local`: the model runs in the server's process. */
export async function startAgentBench(
  prepare: (dir: string) => Promise<unknown>,
  { local = false } = {},
): Promise<AgentBench> {
  const dir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  await prepare(dir);
  const model = await startProcess("agent-model", [], {});
  const server = await startProcess("agent-server", [], {
    SANDPIPER_DATA: dir,
    SANDPIPER_API_KEY: key,
    SANDPIPER_PORT: "0",
    SANDPIPER_LOG_LEVEL: "error",
    SANDPIPER_MAX_REQUESTS: "1000000",
    SANDPIPER_MAX_RUNS: "0",
    ...(local && { BENCH_MODEL: "local" }),
  });
  const headers = { "x-session-api-key": key, "content-type": "application/json" };
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(server.url + path, {
      method,
      headers,
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json() as Promise<T>;
  };
  // A summary would cut the histories whose cost is measured.
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-bench", llm_base_url: model.url };
  await call("POST", "/api/settings", { ...settings, enable_default_condenser: false });
  return {
    ...{ dir, url: server.url, modelUrl: model.url },
    async begin(id, name, steps) {
      const content = [{ type: "text", text: `bench-${name}:${steps};` }];
      await call("POST", `/api/conversations/${id}/events`, { role: "user", content, run: true });
    },
    async rested(everyMs = 20) {
      while ((await server.ask("running")) !== 0) await delay(everyMs);
    },
    exchanges: async () => new Map((await model.ask("exchanges")) as [string, Exchange[]][]),
    noted: () => server.ask("noted") as Promise<Noted>,
    memory: (what = "memory") => server.ask(what) as Promise<Memory>,
    ...{ headers: { "x-session-api-key": key }, call },
    async removeSandboxes() {
      const { items } = await call<{ items: { id: string }[] }>("GET", "/api/v1/sandboxes/search");
      for (const { id } of items) await call("DELETE", `/api/v1/sandboxes/${id}?sandbox_id=${id}`);
    },
    async end() {
      await server.end();
      await model.end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A program of this folder that prints its address and then answers requests. */
async function startProcess(program: string, args: string[], env: Record<string, string>) {
  const child: ChildProcess = fork(fileURLToPath(new URL(`./${program}.ts`, import.meta.url)), args, {
    execArgv: ["--disable-warning=ExperimentalWarning"],
    env: { ...process.env, ...env },
  });
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  child.once("exit", (code) => failed.reject(new Error(`${program} ended with ${code}`)));
  const answer = async () => ((await Promise.race([once(child, "message"), failed.promise])) as unknown[])[0];
  const { url } = (await answer()) as { url: string };
  return {
    url,
    ask(what: string) {
      child.send(what);
      return answer();
    },
    async end() {
      const ended = once(child, "exit");
      child.disconnect();
      await ended;
    },
  };
}
