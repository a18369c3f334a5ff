import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SkillLibrary } from "@sandpiper/agent/skills/library/library";
import { makeOutbound } from "@sandpiper/core/outbound/outbound";
import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { SecretMask } from "@sandpiper/core/secrets/mask";
import type { ModelRequest, ModelResponse } from "@sandpiper/models/model";
import { EgressProxy } from "@sandpiper/sandbox/network/proxy/egress-proxy";
import { BashService } from "@sandpiper/sandbox/shell/commands/service";
import { emptyUsage, type NewEvent, newId } from "@sandpiper/wire";
import { pino } from "pino";
import { WebSocket } from "ws";
import { CallbackService } from "../../src/callbacks/service.ts";
import type { Config } from "../../src/config/config.ts";
import { readConfig } from "../../src/config/read-config.ts";
import type { Conversations } from "../../src/conversations/api.ts";
import { createConversations } from "../../src/conversations/wiring.ts";
import { GitHostingService } from "../../src/git/hosting.ts";
import { buildApp } from "../../src/http/app.ts";
import { getPublicUrl } from "../../src/http/server/urls.ts";
import { Recordings } from "../../src/recording/export.ts";
import type { ConversationConfig } from "../../src/store/conversation-store.ts";
import { emptyConfig } from "../../src/store/empty-config.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import { createVault } from "../../src/store/vault.ts";
import { StoredApiKeys } from "../../src/users/api-keys.ts";
import { DailyBudget } from "../../src/users/daily-budget.ts";
import { defaultUser } from "../../src/users/default-user.ts";
import { EncryptedValues } from "../../src/users/encrypted-values.ts";
import { KeyCache } from "../../src/users/key-cache.ts";
import { StoredLogins } from "../../src/users/logins.ts";
import { ProviderAccess } from "../../src/users/provider-access.ts";
import { StoredSecrets } from "../../src/users/secrets.ts";
import { StoredSettings } from "../../src/users/settings/settings.ts";
import { SandboxRecords } from "./test-sandboxes.ts";

/** A listening server for tests of routes and sockets: the real store and services, over records of sandboxes that do not run. */

export const key = "key-of-the-user-0123456789";
export const strangerKey = "key-of-a-stranger-0123456789";

const noConfig: ConversationConfig = { ...emptyConfig("/workspace/project"), maxIterations: 10 };

/** A model that says "done", or, while it is `thinking`, nothing until it is aborted. */
class TestModel {
  readonly name = "test/model";
  readonly contextWindow = 1000;
  thinking = false;

  async complete({ signal }: ModelRequest): Promise<ModelResponse> {
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
  const config: Config = {
    ...readConfig({}),
    port: 0,
    dataDir,
    bodyLimit: 1024 * 1024,
    logLevel: "debug",
    limits: { memoryBytes: 1, pids: 1, cpus: 1, diskBytes: 1 },
    corsOrigins: ["https://gui.example"],
    ...change,
  };
  const logger = pino({ level: config.logLevel }, { write: (line: string) => void logs.push(line) });
  const vault = createVault(randomBytes(32));
  const scheduler = new EventLoopScheduler();
  const store = await openSqliteStore({ dir: dataDir, vault, scheduler });
  const settings = new StoredSettings(store.settings, {
    providerHosts: (userId) => secrets.providerHosts(userId),
    onSecret: (value, userId) => mask.registerKey(value, userId),
  });
  const mask = new SecretMask();
  const secrets = new StoredSecrets({
    users: store.userSecrets,
    conversations: store.conversationSecrets,
    mask,
  });
  const keyMemory = new KeyCache(store.apiKeys);
  const apiKeys = new StoredApiKeys(store.apiKeys, keyMemory);
  const logins = new StoredLogins(store.logins, keyMemory);
  await apiKeys.adopt(defaultUser, "first", key);
  await apiKeys.adopt("stranger", "second", strangerKey);
  const sandboxes = new SandboxRecords();
  const bash = new BashService({ dir: join(dataDir, "bash"), sandboxes, logger });
  const egress = await EgressProxy.open({ dir: join(dataDir, "network"), logger });
  const outbound = makeOutbound({ allowPrivate: config.outboundPrivate });
  const model = new TestModel();
  const openModel = () => model;
  let url = "";
  const skills = new SkillLibrary({
    folder: config.skillsDir,
    outbound,
    registrations: (userId) => settings.agent(userId).marketplaces,
    logger,
  });
  await skills.open();
  const callbacks = new CallbackService({
    callbacks: store.callbacks,
    events: store.events,
    outbound,
    server: config.webhook,
    conversationInfo: (id) => {
      const row = store.conversations.get(id);
      return row && conversations.reads.info(row);
    },
    registerSecret: () => {},
    logger,
    batchDelayMs: 20,
  });
  const conversations: Conversations = createConversations({
    scheduler,
    store,
    callbacks,
    globalSkills: (userId: string) => skills.known(userId),
    sandboxes,
    outbound,
    settings,
    secrets,
    toolsFor: () => [],
    mask,
    openModel,
    limits: { maxRuns: config.maxRuns, dailyBudget: new DailyBudget(store.spending, config.dailyBudget) },
    publicUrl: () => url,
    logger,
  });
  const globalSkills = (userId: string) => skills.known(userId);
  const recordings = new Recordings({
    store,
    settings,
    secrets,
    mask,
    conversations,
    globalSkills,
    version: "test",
  });
  const git = new GitHostingService({ secrets, outbound });
  const app = buildApp({
    config,
    secrets,
    providerAccess: new ProviderAccess(randomBytes(32)),
    settings,
    encryptedValues: new EncryptedValues(vault),
    apiKeys,
    logins,
    conversations,
    recordings,
    callbacks,
    skills,
    sandboxes,
    bash,
    egress,
    outbound,
    openModel,
    git,
    events: store.events,
    scheduler,
    longReads: new KeyedMutex(),
    logger,
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  await callbacks.open();
  const { port } = app.server.address() as AddressInfo;
  url = getPublicUrl(config, app.server);

  return {
    app,
    url,
    port,
    logs,
    config,
    logger,
    settings,
    secrets,
    mask,
    apiKeys,
    logins,
    store,
    events: store.events,
    conversations,
    callbacks,
    sandboxes,
    bash,
    egress,
    model,
    scheduler,
    async close() {
      await app.close();
      await bash.close();
      model.thinking = false;
      await conversations.close(1000);
      await callbacks.close();
      await outbound.close();
      await store.close();
      await rm(dataDir, { recursive: true, force: true });
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
    /** Calls a route with the user's key (`key: null` sends none). A string body is sent as it is. */
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
        signal: AbortSignal.timeout(50_000),
      });
    },
  };
}

/** The status and the JSON body of an answer. */
// Tests assert what is in it.
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

// Tests assert what is in it.
type JsonFrame = Record<string, any>;

/** A socket client that keeps its frames and lets tests wait for what they expect. */
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
    const signal = AbortSignal.timeout(50_000);
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
