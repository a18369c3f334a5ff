import { hexId, newId } from "@sandpiper/wire";
import type { Config } from "../../src/config/config.ts";
import { key, startServer, strangerKey, type TestServer } from "../support/test-server.ts";
import type { Credential } from "./requests.ts";
import type { Pool } from "./schema-values.ts";
import {
  commonValues,
  type FuzzTarget,
  LogLines,
  mine,
  planted,
  plantSecrets,
  stopGoals,
  strangers,
  TableCounts,
} from "./target.ts";

/** Of what a project in a sandbox does by itself. */
const digest = "5f".repeat(32);

/** A server without an engine, with two users and their planted secrets. */
export class RecordTarget implements FuzzTarget {
  readonly server: TestServer;
  readonly port: number;
  readonly base: string | undefined;
  readonly secrets = [planted];
  readonly slowMs = 5_000;
  readonly batch = 200;
  readonly lanes = 1;
  readonly #tables: TableCounts;
  readonly #logs = new LogLines();
  readonly #readOnlyKey: string;
  readonly #conversations: Record<string, string[]> = { [mine]: [], [strangers]: [] };
  readonly #events: string[] = [];
  readonly #callbacks: string[] = [];
  #spareKeys: string[] = [];
  #sessionKey = "";

  private constructor(server: TestServer, readOnlyKey: string, base: string | undefined) {
    this.server = server;
    this.base = base;
    this.#readOnlyKey = readOnlyKey;
    this.port = server.port;
    this.#tables = new TableCounts(server.config.dataDir);
  }

  /** `base` is where the requests go, such as the surface of one sandbox; default: the root. */
  static async open(change: Partial<Config> = {}, base?: string): Promise<RecordTarget> {
    const server = await startServer({ maxRequests: 0, ...change });
    const { key: readOnlyKey } = await server.apiKeys.add(mine, {
      name: "reader",
      readOnly: true,
      expiresAt: null,
    });
    const target = new RecordTarget(server, readOnlyKey, base);
    const refused = await target.#plantSecrets();
    if (refused.length > 0) throw new Error(`no place for a secret: ${refused.join(", ")}`);
    await target.replenish();
    return target;
  }

  keyOf(credential: Credential): string | undefined {
    const keys: Record<Credential, string | undefined> = {
      none: undefined,
      wrong: "sp_no-such-key",
      stranger: strangerKey,
      "read-only": this.#readOnlyKey,
      sandbox: this.server.sandboxes.rows.has("sandbox-1") ? this.#sessionKey : undefined,
      owner: key,
    };
    return keys[credential];
  }

  /** Restores conversations with events and sandboxes in several states. */
  async replenish(): Promise<void> {
    const { server } = this;
    await stopGoals(server);
    const { rows } = server.sandboxes;
    for (const id of [...rows.keys()].slice(0, Math.max(0, rows.size - 8))) rows.delete(id);
    for (const [id, userId, status] of [
      ["sandbox-1", mine, "RUNNING"],
      ["sandbox-2", strangers, "RUNNING"],
      ["sandbox-3", mine, "PAUSED"],
      ["sandbox-4", mine, "ERROR"],
    ] as const) {
      server.sandboxes.add({ id, userId, status });
    }
    for (const [holder, userId] of [
      ["sandbox-1", mine],
      ["sandbox-2", strangers],
    ] as const) {
      const parts = [{ kind: "setup_script" as const, source: ".openhands/setup.sh", text: "make" }];
      const origin = "https://git.test/open/work";
      const behaviour = { holder, userId, workingDir: "/workspace/project", digest, origin, parts };
      await server.store.behaviours.add(behaviour, 10);
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
      await server.secrets.putConversation(
        { userId, conversationId: id, sandboxId },
        { CONVERSATION_SECRET: secret },
      );
      const webhook = {
        kind: "WebhookCallbackProcessor",
        url: "http://127.0.0.1:9/",
        secret: `${planted}-callback`,
        kinds: ["PauseEvent"],
      };
      const path = `/api/v1/app-conversations/${id}/callbacks`;
      const answer = await server.call("POST", path, {
        body: webhook,
        key: userId === mine ? key : strangerKey,
      });
      this.#callbacks.unshift(((await answer.json()) as { id: string }).id);
      const [first] = await server.events.read(id, 0, 1);
      this.#events.unshift(first!.event.id);
      this.#conversations[userId] = [id, ...this.#conversations[userId]!].slice(0, 6);
    }
    this.#events.splice(6);
    this.#callbacks.splice(6);
    await server.apiKeys.create(mine, "spare");
    const keys = await server.apiKeys.list();
    this.#spareKeys = keys.flatMap((row) => (row.name === "spare" ? [row.id] : []));
    this.#sessionKey = server.sessionKey("sandbox-1");
    await this.#plantSecrets();
  }

  /** The maximum of profiles and secrets may be reached, so a refusal here is no failure. */
  async #plantSecrets(): Promise<string[]> {
    const refused: string[] = [];
    for (const [userId, name, userKey] of [
      [mine, "one", key],
      [strangers, "two", strangerKey],
    ] as const) {
      const post = (path: string, body: unknown) => this.server.call("POST", path, { body, key: userKey });
      refused.push(...(await plantSecrets(post, name, "http://127.0.0.1:9/")));
      // Over the route it would be shown to the provider first.
      const token = `${planted}-github-${name}`;
      await this.server.secrets.setProviders(userId, new Map([["github", { token, host: "127.0.0.1:9" }]]));
    }
    return refused;
  }

  readonly #pool: Pool = (name) => {
    const both = (ids: readonly string[]) => ids.flatMap((id) => [id, hexId(id)]);
    const ids = () =>
      both([
        ...this.#conversations[mine]!.slice(0, 3),
        ...this.#conversations[strangers]!.slice(0, 1),
        newId(),
      ]);
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
      case "snapshot_id":
        return ["snap-1"];
      case "key_id":
        // Never the keys that the requests themselves carry.
        return this.#spareKeys;
      case "callback_id":
        return this.#callbacks;
      case "digest":
        return [digest, "0".repeat(64)];
      case "key":
        return ["own"];
      case "settings_key":
        return ["own", "other"];
      case "x-expose-secrets":
        return ["plaintext", "encrypted"];
      default:
        return commonValues(name);
    }
  };
  readonly pools = [this.#pool];

  rows(): Record<string, number> {
    const { rows, kept } = this.server.sandboxes;
    return { ...this.#tables.rows(), "sandbox records": rows.size, "snapshot records": kept.length };
  }

  async isBusy(): Promise<boolean> {
    const { startTasks, conversations } = this.server.store;
    return [
      await startTasks.listOpen(),
      await conversations.listRunning(),
      await conversations.listWithGoal(),
    ].some(({ length }) => length > 0);
  }

  badLogLines(): string[] {
    this.#logs.lines.push(...this.server.logs.splice(0));
    return this.#logs.bad(this.secrets);
  }

  async close(): Promise<string[]> {
    this.#tables.close();
    await this.server.close();
    return [];
  }
}
