import { DatabaseSync } from "node:sqlite";
import type { HttpServices } from "../../src/http/server/services.ts";
import type { Store } from "../../src/store/store.ts";
import type { Credential } from "./requests.ts";
import type { Pool } from "./schema-values.ts";

/** Stands in every planted secret: an answer or a log line that holds it has leaked one. */
export const planted = "PLANTED-9f3c";

/** The two users that own something of every kind. */
export const mine = "default";
export const strangers = "stranger";

/** The target of requests: a server, its content, and access for checks from outside. */
export interface FuzzTarget {
  readonly port: number;
  /** Where the routes and their document stand; default: at the root. */
  readonly base?: string;
  /** Values that exist. Values of one pool belong together; the first pool reaches most. */
  readonly pools: readonly Pool[];
  /** Texts that no answer may hold. */
  readonly secrets: readonly string[];
  /** Longest time an answer may take, ms. The machine may be busy with other tests. */
  readonly slowMs: number;
  /** Requests after which it is replenished. */
  readonly batch: number;
  /** Requests at a time in every second batch; in the others there is one. */
  readonly lanes: number;
  /** The key that a kind of caller sends. */
  keyOf(credential: Credential): string | undefined;
  /** Makes again what requests have deleted or changed. */
  replenish(): Promise<void>;
  /** How many rows there are of everything, by table. */
  rows(): Record<string, number>;
  /** Whether a start or a run of an earlier request is still writing. */
  isBusy(): Promise<boolean>;
  /** Log lines since the last call that hold a planted secret or report an unexpected failure. */
  badLogLines(): string[];
  /** Closes the target; returns what it left behind. */
  close(): Promise<string[]>;
}

/** Counts the rows of a store that the server writes. */
export class TableCounts {
  readonly #database: DatabaseSync;
  readonly #tables: string[];

  constructor(dataDir: string) {
    this.#database = new DatabaseSync(`${dataDir}/store/sandpiper.db`, { readOnly: true });
    const tables = this.#database
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .all();
    this.#tables = tables.map(({ name }) => String(name));
  }

  rows(): Record<string, number> {
    return Object.fromEntries(this.#tables.map((table) => [table, this.count(`"${table}"`)]));
  }

  /** `what` is a table, and which rows of it. */
  count(what: string): number {
    return Number(this.#database.prepare(`SELECT count(*) AS count FROM ${what}`).get()!.count);
  }

  close(): void {
    this.#database.close();
  }
}

/** Stops active goals: some run for a thousand rounds and would write later. */
export async function stopGoals({
  store,
  conversations,
}: Pick<HttpServices, "conversations"> & { store: Store }): Promise<void> {
  for (const { id } of await store.conversations.listWithGoal()) await conversations.goals.stop(id);
}

/** Collects what a server logs. */
export class LogLines {
  readonly lines: string[] = [];
  readonly #seen = new Set<string>();

  /** Lines since the last call that are bad, each kind of them once. */
  bad(secrets: readonly string[]): string[] {
    const isBad = (line: string) =>
      line.includes('"request failed"') || secrets.some((secret) => line.includes(secret));
    return this.lines.splice(0).filter((line) => isBad(line) && this.#isNew(line));
  }

  #isNew(line: string): boolean {
    const text = line.replaceAll(/[0-9a-f-]{32,36}|\d{6,}/g, "…").slice(0, 300);
    return !this.#seen.has(text) && this.#seen.add(text) !== undefined;
  }
}

/** Puts a user's secret into every place that takes one. Returns the refusals. */
export async function plantSecrets(
  post: (path: string, body: unknown) => Promise<{ status: number }>,
  userName: string,
  modelUrl: string,
): Promise<string[]> {
  const secret = (what: string) => `${planted}-${what}-${userName}`;
  const server = { url: "http://127.0.0.1:9/mcp", headers: { Authorization: secret("mcp") } };
  const llm = { model: "openai/gpt", api_key: secret("llm"), base_url: modelUrl };
  const bodies: [string, unknown][] = [
    [
      "/api/settings",
      {
        llm_model: "openai/gpt",
        llm_api_key: secret("llm"),
        llm_base_url: modelUrl,
        search_api_key: secret("search"),
        sandbox_api_key: secret("sandbox"),
        mcp_config: { sse_servers: [{ url: "http://127.0.0.1:9/", api_key: secret("sse") }] },
      },
    ],
    ["/api/v1/settings", { agent_settings_diff: { llm, mcp_config: { own: server } } }],
    ["/api/v1/settings/profiles/planted", { llm }],
    ["/api/v1/secrets", { name: "PLANTED", value: secret("custom"), description: "planted" }],
  ];
  const refused: string[] = [];
  for (const [path, body] of bodies) {
    const { status } = await post(path, body);
    if (status >= 300) refused.push(`${status} ${path}`);
  }
  return refused;
}

/** Values that are the same in every target. */
export const commonValues: Pool = (name) => {
  switch (name) {
    case "sandbox_spec_id":
      return ["host", "none"];
    case "model":
      return ["default", "openhands_planted"];
    case "messages":
      return [[{ role: "user", content: "Look around" }]];
    case "org_id":
      return [mine, strangers];
    case "name":
    case "profile_name":
      return ["planted", "other", "one"];
    case "secret_id":
    case "secret_name":
      return ["PLANTED", "github_token", "OTHER"];
    case "provider":
    case "git_provider":
    case "selected_provider":
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
    case "port":
      return [8011, 80];
    default:
      return [];
  }
};
