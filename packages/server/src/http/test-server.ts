import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type AppConversation, type Event, eventTime, hexId, isoTime, newId, type SettingsUpdate, type SettingsView } from "@sandpiper/wire";
import { pino } from "pino";
import { WebSocket } from "ws";
import type { Config } from "../config/config.ts";
import type { Conversations, Frame } from "../conversations/api.ts";
import { PlatformError } from "../errors.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { EventLog, LogRecord } from "../store/event-log.ts";
import type { ConversationRow, PageRequest, SandboxRow } from "../store/store.ts";
import { type ApiKeys, defaultUser, type Settings } from "../users/api.ts";
import { buildApp } from "./app.ts";
import { slicePage } from "./params.ts";

/** A listening server for tests of routes and sockets, over services that live in memory. Used by tests only. */

export const key = "key-of-the-user";
export const strangerKey = "key-of-a-stranger";

export class MemoryLog implements EventLog {
  readonly #logs = new Map<string, LogRecord[]>();
  readonly #followers = new Set<{ id: string; listener: (records: readonly LogRecord[]) => void }>();
  #clock = Date.parse("2026-01-01T00:00:00Z") * 1000;

  async append(id: string, records: readonly { listed: boolean; event: unknown }[]): Promise<LogRecord[]> {
    const log = this.#logs.get(id) ?? [];
    this.#logs.set(id, log);
    const added = records.map(({ listed, event: given }) => {
      this.#clock += 1000;
      const event = { id: newId(), timestamp: eventTime(this.#clock), ...(given as object) } as Event;
      const record = { seq: log.length + 1, listed, event, json: JSON.stringify(event) };
      log.push(record);
      return record;
    });
    // Announced in a later turn, as by a log that syncs first.
    await new Promise((resolve) => setImmediate(resolve));
    for (const follower of this.#followers) if (follower.id === id) follower.listener(added);
    return added;
  }
  read = (id: string, afterSeq: number, limit: number) => (this.#logs.get(id) ?? []).slice(afterSeq, afterSeq + limit);
  search: EventLog["search"] = (id, query) => {
    const found = this.#select(id, query);
    if (query.descending) found.reverse();
    return slicePage(
      found.map((record) => record.json),
      query,
    );
  };
  count: EventLog["count"] = (id, filter = {}) => this.#select(id, filter).length;
  batch: EventLog["batch"] = (id, ids) =>
    ids.map((eventId) => this.#logs.get(id)?.find((r) => r.listed && r.event.id === eventId)?.json ?? null);
  lastSeq = (id: string) => this.#logs.get(id)?.length ?? 0;
  follow: EventLog["follow"] = (id, listener) => {
    const follower = { id, listener };
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  };
  #select(id: string, filter: { kind?: string; timestampGte?: string; timestampLt?: string }) {
    return (this.#logs.get(id) ?? []).filter(
      ({ listed, event }) =>
        listed &&
        (filter.kind === undefined || event.kind === filter.kind) &&
        (filter.timestampGte === undefined || event.timestamp >= filter.timestampGte) &&
        (filter.timestampLt === undefined || event.timestamp < filter.timestampLt),
    );
  }
}

export class MemoryConversations implements Conversations {
  readonly rows = new Map<string, ConversationRow>();
  readonly sent: { id: string; content: unknown; options: unknown }[] = [];
  readonly calls: string[] = [];
  readonly started: unknown[] = [];
  readonly events: MemoryLog;
  readonly #direct = new Set<{ id: string; listener: (frame: Frame) => void }>();
  constructor(events: MemoryLog) {
    this.events = events;
  }

  add(userId = defaultUser, sandboxId = "sandbox-1", id = newId()): string {
    const now = 1_767_225_600_000 + this.rows.size;
    const summary = { executionStatus: "idle", metrics: null } as const;
    const config = { tags: {}, agentType: "default", prNumber: [] } as unknown as ConversationRow["config"];
    this.rows.set(id, { id, userId, sandboxId, config, title: `Conversation ${id.slice(0, 5)}`, parentId: null, createdAt: now, updatedAt: now, summary });
    return id;
  }
  /** Sends a frame that is in no log. */
  emit(id: string, event: object): void {
    for (const follower of this.#direct) if (follower.id === id) follower.listener({ json: JSON.stringify(event) });
  }

  async open() {}
  async close() {}
  async start(_userId: string, request: unknown) {
    this.started.push(request);
    const now = isoTime(Date.now());
    return {
      id: hexId(newId()), created_by_user_id: null, status: "WORKING" as const, detail: null, app_conversation_id: null,
      sandbox_id: null, agent_server_url: null, request, created_at: now, updated_at: now,
    };
  }
  startTasks: Conversations["startTasks"] = {
    search: () => ({ items: [], nextPageId: null }),
    count: () => 0,
    batch: (_userId, ids) => ids.map(() => null),
  };
  #present(row: ConversationRow): AppConversation {
    return { id: hexId(row.id), title: row.title, sandbox_id: row.sandboxId, created_at: isoTime(row.createdAt) } as AppConversation;
  }
  search: Conversations["search"] = (filter, page: PageRequest) => {
    const rows = [...this.rows.values()].filter((row) => row.userId === filter.userId).reverse();
    const { items, nextPageId } = slicePage(rows, page);
    return { items: items.map((row) => this.#present(row)), nextPageId };
  };
  count: Conversations["count"] = (filter) => this.search(filter, { limit: 1e9 }).items.length;
  batch: Conversations["batch"] = (userId, ids) =>
    ids.map((id) => {
      const row = id === undefined ? undefined : this.get(userId, id);
      return row ? this.#present(row) : null;
    });
  get(userId: string, id: string) {
    const row = this.rows.get(id);
    return row?.userId === userId ? row : undefined;
  }
  async update(userId: string, id: string, { title }: { title?: string }) {
    const row = this.get(userId, id)!;
    if (title !== undefined) row.title = title;
    return this.#present(row);
  }
  async remove(_userId: string, id: string) {
    this.rows.delete(id);
  }
  async send(id: string, content: unknown, options: unknown) {
    this.sent.push({ id, content, options });
    await this.events.append(id, [{ listed: true, event: userMessage(JSON.stringify(content)) }]);
  }
  async run(id: string) {
    if (this.calls.includes(`run ${id}`)) throw new PlatformError("ConversationRunning", "Conversation already running. Wait for completion or pause first.");
    this.calls.push(`run ${id}`);
  }
  async pause(id: string) {
    this.calls.push(`pause ${id}`);
  }
  async interrupt(id: string) {
    this.calls.push(`interrupt ${id}`);
  }
  fullState = (id: string) => ({ id, execution_status: "idle", stats: { usage_to_metrics: {} } });
  follow: Conversations["follow"] = (id, listener) => {
    const direct = { id, listener };
    this.#direct.add(direct);
    const unfollow = this.events.follow(id, (records) => {
      for (const { json, seq, listed } of records) listener({ json, seq, listed });
    });
    return () => {
      this.#direct.delete(direct);
      unfollow();
    };
  };
  followers = (id: string) => [...this.#direct].filter((follower) => follower.id === id).length;
}

export class MemorySandboxes implements Sandboxes {
  readonly rows = new Map<string, SandboxRow>();
  add(change: Partial<SandboxRow> = {}): SandboxRow {
    const row: SandboxRow = {
      id: `sandbox-${this.rows.size + 1}`, userId: defaultUser, specId: "host", status: "RUNNING", statusDetail: null,
      incarnation: "1", sessionKey: `session-${this.rows.size + 1}`, createdAt: 1_767_225_600_000, ...change,
    };
    this.rows.set(row.id, row);
    return row;
  }
  async open() {}
  async close() {}
  specs: Sandboxes["specs"] = () => [
    {
      id: "host", root: { kind: "host" }, command: null, env: { LANG: "C.UTF-8" }, workingDir: "/workspace",
      user: { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" }, limits: { memoryBytes: 1, pids: 1, cpus: 1 },
    },
  ];
  async create(userId: string, specId = "host") {
    if (specId !== "host") throw new PlatformError("SandboxSpecNotFound", `There is no sandbox spec ${specId}`);
    return this.add({ userId, status: "STARTING" });
  }
  get(userId: string, id: string) {
    const row = this.rows.get(id);
    return row?.userId === userId ? row : undefined;
  }
  search: Sandboxes["search"] = (userId, page) => slicePage([...this.rows.values()].filter((row) => row.userId === userId), page);
  bySessionKey = (sessionKey: string) => [...this.rows.values()].find((row) => row.sessionKey === sessionKey);
  async running(): Promise<never> {
    throw new PlatformError("SandboxFailed", "No sandboxes in this test");
  }
  #own(userId: string, id: string): SandboxRow {
    const row = this.get(userId, id);
    if (!row) throw new PlatformError("SandboxNotFound", "Sandbox not found");
    return row;
  }
  async pause(userId: string, id: string) {
    this.#own(userId, id).status = "PAUSED";
  }
  async resume(userId: string, id: string) {
    this.#own(userId, id).status = "RUNNING";
  }
  async remove(userId: string, id: string) {
    this.rows.delete(this.#own(userId, id).id);
  }
  onChange = () => () => {};
}

class MemorySettings implements Settings {
  readonly #stored: Record<string, unknown> = {};
  view = () => ({ llm_api_key_set: false, v1_enabled: true, ...this.#stored }) as SettingsView;
  viewJson = () => JSON.stringify(this.view());
  async update(_userId: string, change: SettingsUpdate) {
    Object.assign(this.#stored, change);
  }
  model = () => ({});
  agent = () => ({ maxIterations: 500, maxBudgetPerTask: null });
}

const apiKeys: ApiKeys = {
  authenticate: (text) => (text === key ? { userId: defaultUser } : text === strangerKey ? { userId: "stranger" } : undefined),
  create: async () => "",
  adopt: async () => {},
  list: () => [],
  remove: async () => false,
};

export const userMessage = (text: string) => ({
  kind: "MessageEvent",
  source: "user",
  llm_message: { role: "user", content: [{ type: "text", text }] },
  activated_skills: [],
  extended_content: [],
});

export const statusUpdate = (value: string) => ({
  kind: "ConversationStateUpdateEvent",
  source: "environment",
  key: "execution_status",
  value,
});

/** Starts a server on a free port of loopback. `logs` collects what it logs, as text. */
export async function startServer(config: Partial<Config> = {}) {
  const logs: string[] = [];
  const logger = pino({ level: config.logLevel ?? "debug" }, { write: (line: string) => void logs.push(line) });
  const events = new MemoryLog();
  const conversations = new MemoryConversations(events);
  const sandboxes = new MemorySandboxes();
  const app = buildApp({
    config: {
      host: "127.0.0.1", port: 0, dataDir: "/tmp", apiKey: undefined, publicUrl: undefined, runtime: undefined, bodyLimit: 1024 * 1024,
      logLevel: "debug", limits: { memoryBytes: 1, pids: 1, cpus: 1 }, corsOrigins: ["https://gui.example"], ...config,
    },
    settings: new MemorySettings(), apiKeys, conversations, sandboxes, events, logger,
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const call = (method: string, path: string, init: { body?: unknown; key?: string | null; headers?: Record<string, string> } = {}) =>
    fetch(url + path, {
      method,
      headers: {
        ...(init.key === null ? {} : { "x-session-api-key": init.key ?? key }),
        ...(init.body === undefined ? {} : { "content-type": "application/json" }),
        ...init.headers,
      },
      body: init.body === undefined ? undefined : typeof init.body === "string" ? init.body : JSON.stringify(init.body),
      signal: AbortSignal.timeout(10_000),
    });
  return { app, url, port, events, conversations, sandboxes, logs, call };
}

/** A socket client that keeps its frames and lets tests wait for what they expect. */
export class TestSocket {
  readonly socket: WebSocket;
  readonly frames: Record<string, unknown>[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;
  constructor(url: string, headers: Record<string, string> = {}) {
    this.socket = new WebSocket(url.replace("http", "ws"), { headers });
    this.socket.on("message", (data) => {
      this.frames.push(JSON.parse(String(data)));
      this.socket.emit("frame");
    });
    this.socket.on("error", () => {});
    this.closed = once(this.socket, "close").then(([code, reason]) => ({ code, reason: String(reason) }));
  }
  /** Resolves when a frame fits; fails after ten seconds. */
  async until(fits: (frame: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    const signal = AbortSignal.timeout(10_000);
    for (;;) {
      const frame = this.frames.find(fits);
      if (frame) return frame;
      await once(this.socket, "frame", { signal });
    }
  }
  /** The HTTP status of a refused handshake. */
  refused(): Promise<number> {
    return once(this.socket, "unexpected-response").then(([, response]) => response.statusCode);
  }
  texts(): string[] {
    return this.frames.filter((f) => f.kind === "MessageEvent").map((f) => (f.llm_message as { content: { text: string }[] }).content[0]!.text);
  }
}
