import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ModelRequest, ModelResponse } from "@sandpiper/models/model";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { emptyUsage, type NewEvent, newId } from "@sandpiper/wire";
import { WebSocket } from "ws";
import type { Config } from "../../src/config/config.ts";
import { readConfig } from "../../src/config/read-config.ts";
import { getPublicUrl } from "../../src/http/server/urls.ts";
import { startPlatform } from "../../src/platform.ts";
import type { ConversationConfig } from "../../src/store/conversation-store.ts";
import { emptyConfig } from "../../src/store/empty-config.ts";
import { defaultUser } from "../../src/users/default-user.ts";
import { makeSessionKey } from "../../src/users/sandbox-grants.ts";
import { databaseOf } from "./nodes/databases.ts";
import { SandboxRecords } from "./test-sandboxes.ts";

/**
 * A listening server for tests of routes and sockets: the real store and services, over records of
 * sandboxes that do not run.
 */

export const key = "key-of-the-user-0123456789";
export const strangerKey = "key-of-a-stranger-0123456789";

const noConfig: ConversationConfig = { ...emptyConfig("/workspace/project"), maxIterations: 10 };

/** A model that says "done", or, while it is `thinking`, nothing until it is aborted. */
class TestModel {
  readonly name = "test/model";
  readonly contextWindow = 1000;
  thinking = false;

  async complete({ signal }: ModelRequest): Promise<ModelResponse> {
    signal.throwIfAborted();
    if (this.thinking) {
      await new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
      );
    }
    return {
      id: newId(),
      text: "done",
      thinkingBlocks: [],
      toolCalls: [],
      usage: emptyUsage(),
      cost: 0,
      finishReason: "stop",
    };
  }
}

export type TestServer = Awaited<ReturnType<typeof startServer>>;

/** Starts a server on a free port of loopback. `logs` collects what it logs, as text. */
export async function startServer(change: Partial<Config> = {}) {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-http-"));
  const logs: string[] = [];
  const address = await databaseOf(dataDir);
  const config: Config = {
    ...readConfig({}),
    port: 0,
    dataDir,
    bodyLimit: 1024 * 1024,
    logLevel: "debug",
    limits: { memoryBytes: 1, pids: 1, cpus: 1, diskBytes: 1 },
    corsOrigins: ["https://gui.example"],
    database: address === undefined ? undefined : { from: "variable", url: address },
    ...change,
  };
  const model = new TestModel();
  const sandboxes = new SandboxRecords();
  const platform = await startPlatform(config, {
    env: {},
    logs: { write: (line: string) => void logs.push(line) },
    openModel: () => model,
    chooseTools: () => [],
    sandboxes,
    batchDelayMs: 20,
  });
  const { app, mask, egress, services, store } = platform;
  await services.apiKeys.adopt(defaultUser, "first", key);
  await services.apiKeys.adopt("stranger", "second", strangerKey);
  const url = getPublicUrl(config, app.server);
  const sourceOf = async (text: string) => (await services.apiKeys.authenticate(text))!.source;
  const [source, strangerSource] = [await sourceOf(key), await sourceOf(strangerKey)];
  /** The session key of a sandbox that its user sees with the first key. */
  const sessionKey = (id: string) => {
    const row = sandboxes.rows.get(id)!;
    return makeSessionKey({ row, source: row.userId === "stranger" ? strangerSource : source });
  };

  return {
    ...services,
    ...{ app, url, logs, config, mask, egress, store, sandboxes, model },
    port: (app.server.address() as AddressInfo).port,
    async close() {
      model.thinking = false;
      await platform.close();
      await rm(dataDir, { recursive: true, force: true });
    },
    sessionKey,
    /** Adds a sandbox's record, and returns it with the session key that its user sees. */
    addSandbox(change: Partial<SandboxRow> = {}): SandboxRow {
      const row = sandboxes.add(change);
      return { ...row, sessionKey: sessionKey(row.id) };
    },
    /** Stores a conversation. */
    async addConversation(userId = defaultUser, sandboxId = "sandbox-1"): Promise<string> {
      const id = newId();
      const title = `Conversation ${id.slice(0, 5)}`;
      await store.conversations.create({
        id,
        userId,
        sandboxId,
        config: noConfig,
        title,
        parentId: null,
        createdAt: Date.now(),
      });
      return id;
    },
    /** Stores user messages with these texts in the log. */
    async addMessages(id: string, ...texts: string[]): Promise<void> {
      await store.events.append(
        id,
        texts.map((text) => ({ listed: true, event: message(text) })),
      );
    },
    /**
     * Calls a route with the user's key (`key: null` sends none). A string body is sent as it is.
     */
    call(
      method: string,
      path: string,
      init: { body?: unknown; key?: string | null; headers?: Record<string, string> } = {},
    ) {
      return fetch(url + path, {
        method,
        headers: {
          ...(init.key === null ? {} : { "x-session-api-key": init.key ?? key }),
          ...(init.body === undefined ? {} : { "content-type": "application/json" }),
          ...init.headers,
        },
        body:
          init.body === undefined
            ? undefined
            : typeof init.body === "string"
              ? init.body
              : JSON.stringify(init.body),
        signal: AbortSignal.timeout(150_000),
      });
    },
  };
}

/** The status and the JSON body of an answer. */
// Tests assert its contents.
export async function read(answer: Promise<Response>): Promise<{ status: number; body: any }> {
  const response = await answer;
  return { status: response.status, body: await response.json() };
}

export function message(text: string): NewEvent {
  return {
    kind: "MessageEvent",
    source: "user",
    llm_message: { role: "user", content: [{ type: "text", text }] },
    activated_skills: [],
    extended_content: [],
  };
}

// Tests assert its contents.
type JsonFrame = Record<string, any>;

/** A socket client that keeps its frames and lets tests wait for frames. */
export class TestSocket {
  readonly socket: WebSocket;
  readonly frames: JsonFrame[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;
  /** The HTTP status of a refused handshake. */
  readonly refused: Promise<number>;

  constructor(server: Pick<TestServer, "url">, path: string, headers: Record<string, string> = {}) {
    this.socket = new WebSocket(server.url.replace("http", "ws") + path, { headers });
    this.socket.on("message", (data) => {
      this.frames.push(JSON.parse(String(data)));
      this.socket.emit("frame");
    });
    this.closed = new Promise((resolve) => {
      this.socket.once("close", (code, reason) => resolve({ code, reason: String(reason) }));
    });
    this.refused = new Promise((resolve) => {
      this.socket.once("unexpected-response", (request, response) => {
        resolve(response.statusCode ?? 0);
        request.destroy();
      });
    });
    this.socket.on("error", () => {});
  }

  /** Resolves with the first frame that fits; fails after ten seconds. */
  async until(fits: (frame: JsonFrame) => boolean): Promise<JsonFrame> {
    const signal = AbortSignal.timeout(150_000);
    for (;;) {
      const frame = this.frames.find(fits);
      if (frame) return frame;
      await once(this.socket, "frame", { signal });
    }
  }

  send(frame: unknown): void {
    this.socket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
  }

  /** The texts of the user's messages, in the order of arrival. */
  texts(): string[] {
    return this.frames.filter(isUserMessage).map((frame) => frame.llm_message.content[0].text);
  }
}

export function isUserMessage(frame: JsonFrame): boolean {
  return frame.kind === "MessageEvent" && frame.source === "user";
}

export function isFullState(frame: JsonFrame): boolean {
  return frame.kind === "ConversationStateUpdateEvent" && frame.key === "full_state";
}
