import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { noteAnswer, reportWait, until } from "@sandpiper/core/test/support/until";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { DestinationStream } from "pino";
import WebSocket from "ws";
import type { Config } from "../../src/config/config.ts";
import { readConfig } from "../../src/config/read-config.ts";
import type { Platform } from "../../src/platform.ts";
import { databaseOf } from "./nodes/databases.ts";
import { startNodes } from "./nodes/start-nodes.ts";

export { until };

export type Json = Record<string, any>;

/**
 * Starts a platform in this process with a real store, sandboxes and listener, on its own data
 * folder. In some runs of `npm run test:nodes` several nodes are behind its address.
 */
export interface TestPlatform {
  platform: Platform;
  url: string;
  key: string;
  dataDir: string;
  /** A JSON request with the key; returns status and parsed body. */
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: any }>;
  /** Waits until a sandbox runs, and returns its handle in the node that owns the sandbox. */
  running(sandboxId: string): Promise<Sandbox>;
  /** Stops the platform and removes its sandboxes and its data. */
  stop(): Promise<void>;
}

export const testKey = "sp_test-key-0123456789abcdefghijklmnopqrstuvwxyz";

/** `logs` takes the lines of the log that otherwise go to standard error. */
export async function startTestPlatform(
  overrides: Partial<Config> = {},
  logs?: DestinationStream,
): Promise<TestPlatform> {
  const dataDir = overrides.dataDir ?? (await mkdtemp(join(tmpdir(), "sandpiper-test-")));
  const config = {
    ...readConfig({ SANDPIPER_DATA: dataDir, SANDPIPER_API_KEY: testKey }),
    port: 0,
    logLevel: "error" as const,
  };
  const address = await databaseOf(dataDir);
  const database = address === undefined ? undefined : ({ from: "variable", url: address } as const);
  const nodes = await startNodes({ ...config, database, ...overrides, dataDir }, { logs });
  const { platforms, url } = nodes;
  const call = caller(url, testKey);
  return {
    platform: platforms[0],
    url,
    key: testKey,
    dataDir,
    call,
    async running(sandboxId) {
      const found = await Promise.allSettled(platforms.map(({ sandboxes }) => sandboxes.running(sandboxId)));
      const here = found.find(({ status }) => status === "fulfilled") ?? found[0]!;
      if (here.status === "rejected") throw here.reason;
      return here.value;
    },
    async stop() {
      await removeSandboxes(call);
      await nodes.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

export async function removeSandboxes(call: TestPlatform["call"]): Promise<void> {
  const { body } = await call("GET", "/api/v1/sandboxes/search");
  for (const { id } of body.items) await call("DELETE", `/api/v1/sandboxes/${id}?sandbox_id=${id}`);
}

export function caller(url: string, key: string): TestPlatform["call"] {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        "X-Session-API-Key": key,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    noteAnswer(`${method} ${path}`, response.status, text);
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
}

/** Starts a conversation with a first message; waits for its start task. Throws when that fails. */
export async function startConversation(
  call: TestPlatform["call"],
  text: string,
  extra: Json = {},
): Promise<{ id: string; sandboxId: string }> {
  const request = { initial_message: { content: [{ type: "text", text }] }, ...extra };
  const started = await call("POST", "/api/v1/app-conversations", request);
  if (started.status !== 200) throw new Error(JSON.stringify(started));
  const task = await until(async () => {
    const { body } = await call("GET", `/api/v1/app-conversations/start-tasks?ids=${started.body.id}`);
    return ["READY", "ERROR"].includes(body[0].status) ? body[0] : undefined;
  });
  if (task.status === "ERROR") throw new Error(task.detail);
  return { id: task.app_conversation_id, sandboxId: task.sandbox_id };
}

/** Follows a conversation's socket and keeps every frame. */
export class SocketClient {
  readonly frames: Json[] = [];
  readonly socket: WebSocket;
  readonly closed: Promise<{ code: number; reason: string }>;
  #waiting: (() => void)[] = [];

  constructor(url: string) {
    this.socket = new WebSocket(url);
    this.closed = new Promise((resolve) => {
      this.socket.once("close", (code, reason) => resolve({ code, reason: String(reason) }));
      this.socket.once("error", () => {});
    });
    this.socket.on("message", (data) => {
      this.frames.push(JSON.parse(String(data)));
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const wake of waiting) wake();
    });
  }

  static forConversation(server: { url: string; key: string }, id: string, query = ""): SocketClient {
    const address = server.url.replace(/^http/, "ws");
    return new SocketClient(`${address}/sockets/events/${id}?session_api_key=${server.key}${query}`);
  }

  /** The first frame that matches, past or to come. */
  frame(matches: (frame: Json) => boolean): Promise<Json> {
    return reportWait(matches, async () => {
      for (;;) {
        const found = this.frames.find(matches);
        if (found) return found;
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
      }
    });
  }

  /** Waits for a live status. */
  status(value: string): Promise<Json> {
    return this.frame((frame) => frame.key === "execution_status" && frame.value === value);
  }

  close(): void {
    this.socket.close();
  }
}
