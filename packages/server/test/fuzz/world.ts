import { DatabaseSync } from "node:sqlite";
import { hexId, newId } from "@sandpiper/wire";
import type { Config } from "../../src/config/config.ts";
import { key, startServer, strangerKey, type TestServer } from "../../src/http/test-server.ts";
import type { Credential } from "./requests.ts";
import type { Pool } from "./schema-values.ts";

/** Stands in every planted secret: an answer or a log line that holds it has leaked one. */
export const planted = "PLANTED-9f3c";

const strangers = "stranger";
const mine = "default";

/** A server with two users who own something of every kind, and secrets whose values must not be seen again. */
export class FuzzWorld {
  readonly server: TestServer;
  readonly #database: DatabaseSync;
  readonly #tables: string[];
  readonly #readOnlyKey: string;
  readonly #conversations: Record<string, string[]> = { [mine]: [], [strangers]: [] };
  readonly #events: string[] = [];
  readonly #callbacks: string[] = [];
  readonly #seen = new Set<string>();

  private constructor(server: TestServer, readOnlyKey: string) {
    this.server = server;
    this.#readOnlyKey = readOnlyKey;
    this.#database = new DatabaseSync(`${server.config.dataDir}/store/sandpiper.db`, { readOnly: true });
    const tables = this.#database
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .all();
    this.#tables = tables.map(({ name }) => String(name));
  }

  static async open(change: Partial<Config> = {}): Promise<FuzzWorld> {
    const server = await startServer({ maxRequests: 0, ...change });
    const { key: readOnlyKey } = await server.apiKeys.add(mine, { name: "reader", readOnly: true, expiresAt: null });
    const world = new FuzzWorld(server, readOnlyKey);
    await world.plantSecrets();
    await world.replenish();
    return world;
  }

  /** The key that a kind of caller sends. */
  keyOf(credential: Credential): string | undefined {
    const keys: Record<Credential, string | undefined> = {
      none: undefined,
      wrong: "sp_no-such-key",
      stranger: strangerKey,
      "read-only": this.#readOnlyKey,
      sandbox: this.server.sandboxes.get(mine, "sandbox-1")?.sessionKey,
      owner: key,
    };
    return keys[credential];
  }

  /** Makes again what requests have deleted or changed: conversations with events, sandboxes in several states. */
  async replenish(): Promise<void> {
    const { server } = this;
    const { rows } = server.sandboxes;
    for (const id of [...rows.keys()].slice(0, Math.max(0, rows.size - 8))) rows.delete(id);
    for (const [id, userId, status] of [
      ["sandbox-1", mine, "RUNNING"],
      ["sandbox-2", strangers, "RUNNING"],
      ["sandbox-3", mine, "PAUSED"],
      ["sandbox-4", mine, "ERROR"],
    ] as const) {
      server.sandboxes.add({ id, userId, status, sessionKey: `session-key-${id}` });
    }
    for (const [userId, sandboxId] of [
      [mine, "sandbox-1"],
      [mine, "sandbox-3"],
      [mine, "gone"],
      [strangers, "sandbox-2"],
    ] as const) {
      const id = await server.addConversation(userId, sandboxId);
      await server.addMessages(id, "hello", "there");
      const secret = `${planted}-conversation`;
      await server.secrets.putConversation({ userId, conversationId: id, sandboxId }, { CONVERSATION_SECRET: secret });
      const webhook = {
        kind: "WebhookCallbackProcessor",
        url: "http://127.0.0.1:9/",
        secret: `${planted}-callback`,
        kinds: ["PauseEvent"],
      };
      const path = `/api/v1/app-conversations/${id}/callbacks`;
      const answer = await server.call("POST", path, { body: webhook, key: userId === mine ? key : strangerKey });
      this.#callbacks.unshift(((await answer.json()) as { id: string }).id);
      const [first] = server.events.read(id, 0, 1);
      this.#events.unshift(first!.event.id);
      this.#conversations[userId] = [id, ...this.#conversations[userId]!].slice(0, 6);
    }
    this.#events.splice(6);
    this.#callbacks.splice(6);
    await server.apiKeys.create(mine, "spare");
    await this.plantSecrets(true);
  }

  /** Puts a secret into every place that takes one, over the routes that clients use. */
  async plantSecrets(again = false): Promise<void> {
    for (const [name, userKey] of [
      ["one", key],
      ["two", strangerKey],
    ] as const) {
      const secret = (what: string) => `${planted}-${what}-${name}`;
      const post = (path: string, body: unknown) => this.server.call("POST", path, { body, key: userKey });
      const server = { url: "http://127.0.0.1:9/mcp", headers: { Authorization: secret("mcp") } };
      const llm = { model: "openai/gpt", api_key: secret("llm"), base_url: "http://127.0.0.1:9/" };
      const answers = [
        await post("/api/settings", {
          llm_model: "openai/gpt",
          llm_api_key: secret("llm"),
          search_api_key: secret("search"),
          sandbox_api_key: secret("sandbox"),
          mcp_config: { sse_servers: [{ url: "http://127.0.0.1:9/", api_key: secret("sse") }] },
        }),
        await post("/api/v1/settings", { agent_settings_diff: { llm, mcp_config: { own: server } } }),
        await post("/api/v1/settings/profiles/planted", { llm }),
        await post("/api/v1/secrets", { name: "PLANTED", value: secret("custom"), description: "planted" }),
      ];
      const refused = answers.filter((answer) => !answer.ok).map((answer) => `${answer.status} ${answer.url}`);
      // Later there may be as many profiles and secrets as a user can have.
      if (refused.length > 0 && !again) throw new Error(`no place for a secret: ${refused.join(", ")}`);
      const userId = userKey === key ? mine : strangers;
      // Over the route it would be shown to the provider first.
      await this.server.secrets.setProviders(userId, new Map([["github", { token: secret("github"), host: "127.0.0.1:9" }]]));
    }
  }

  /** Values of parameters and fields that reach something. */
  readonly pool: Pool = (name) => {
    const both = (ids: readonly string[]) => ids.flatMap((id) => [id, hexId(id)]);
    const ids = () => both([...this.#conversations[mine]!.slice(0, 3), ...this.#conversations[strangers]!.slice(0, 1), newId()]);
    const sandboxes = ["sandbox-1", "sandbox-2", "sandbox-3", "sandbox-4", "gone"];
    switch (name) {
      case "conversation_id":
      case "conversation_id__eq":
      case "parent_conversation_id":
        return [
          ...ids(),
          ...ids()
            .slice(0, 1)
            .map((id) => `task-${hexId(id)}`),
        ];
      case "ids":
        return ids();
      case "id":
        return [...ids().slice(0, 2), ...sandboxes.slice(0, 2), ...this.#events.slice(0, 2)];
      case "event_id":
        return this.#events;
      case "sandbox_id":
      case "sandbox_id__eq":
        return sandboxes;
      case "sandbox_spec_id":
        return ["host", "none"];
      case "snapshot_id":
        return ["snap-1"];
      case "name":
      case "profile_name":
      case "profile_id":
        return ["planted", "other", "one"];
      case "secret_id":
      case "secret_name":
        return ["PLANTED", "github_token", "OTHER"];
      case "provider":
      case "git_provider":
        return ["github", "gitlab"];
      case "created_at__gte":
      case "created_at__lt":
      case "updated_at__gte":
      case "updated_at__lt":
      case "timestamp__gte":
      case "timestamp__lt":
        return ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00.123456+02:00"];
      case "page_id":
        return ["0", "1", "100", "MTAw"];
      case "limit":
        return [1, 10, 100];
      case "key_id":
        // Never the keys that the requests themselves carry.
        return this.server.apiKeys.list().flatMap((row) => (row.name === "spare" ? [row.id] : []));
      case "callback_id":
        return this.#callbacks;
      case "key":
        return ["own"];
      case "port":
        return [8011, 80];
      default:
        return [];
    }
  };

  /** How many rows there are of everything, by table. */
  rows(): Record<string, number> {
    const counts = this.#tables.map((table) => [
      table,
      Number(this.#database.prepare(`SELECT count(*) AS count FROM "${table}"`).get()!.count),
    ]);
    const { rows, kept } = this.server.sandboxes;
    return { ...Object.fromEntries(counts), "sandbox records": rows.size, "snapshot records": kept.length };
  }

  /** Whether a start or a run of an earlier request is still writing. */
  isBusy(): boolean {
    const { startTasks, conversations } = this.server.store;
    return startTasks.listOpen().length > 0 || conversations.listRunning().length > 0;
  }

  /** Log lines since the last call that hold a planted secret or tell of a failure that nobody expected. */
  badLogLines(): string[] {
    const lines = this.server.logs.splice(0);
    return lines.filter((line) => (line.includes(planted) || line.includes('"request failed"')) && this.#isNew(line));
  }

  #isNew(line: string): boolean {
    const text = line.replaceAll(/[0-9a-f-]{32,36}|\d{6,}/g, "…").slice(0, 300);
    return !this.#seen.has(text) && this.#seen.add(text) !== undefined;
  }

  async close(): Promise<void> {
    this.#database.close();
    await this.server.close();
  }
}
