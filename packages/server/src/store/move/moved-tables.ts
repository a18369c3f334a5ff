import type { MetricsSnapshot, Stats } from "@sandpiper/wire";
import type { ConversationConfig } from "../conversation-store.ts";
import { postgresDialect } from "../postgres/dialect.ts";
import { maxSeq } from "../sql/max-seq.ts";
import { getOwnCost } from "../summary.ts";
import type { ColumnType, Value } from "./row-text.ts";

/** A table that is moved to PostgreSQL. */
export interface MovedTable {
  name: string;
  /** Columns of PostgreSQL in the order of a row's values. */
  columns: Readonly<Record<string, ColumnType>>;
  /** Columns that both engines sort alike and that no two rows share. */
  key: string;
  /** SQLite's expressions for columns whose value is not a column of the same name. */
  computed?: Readonly<Record<string, string>>;
  /** The columns of SQLite's own order; default: the same as `key`. */
  sourceKey?: string;
  /** Computes further columns from the other columns of a row. */
  derive?(row: Readonly<Record<string, Value>>, place: string | null): Record<string, Value>;
}

const time = { created_at: "integer" } as const;

/** All tables, in an order in which no row refers to a later one. */
export const movedTables: readonly MovedTable[] = [
  {
    name: "conversations",
    columns: {
      ...{ number: "integer", id: "text", user_id: "text", sandbox_id: "text", config: "text" },
      ...{ title: "text", parent_id: "text", created_at: "integer", updated_at: "integer" },
      ...{ repository: "text", trigger_name: "text", goal_status: "text" },
      ...{ is_task: "boolean", external: "boolean", execution_status: "text", unclean_ends: "integer" },
      ...{ metrics: "text", stats: "text", counted_cost: "double", last_seq: "integer" },
      ...{ last_listed: "integer", last_micros: "integer", head: "text", stored_bytes: "integer" },
    },
    key: "number",
    derive: deriveConversation,
  },
  {
    name: "events",
    columns: {
      ...{ conversation: "integer", seq: "integer", listed_index: "integer", id: "text", kind: "text" },
      ...{ timestamp: "text", json: "text" },
    },
    key: "conversation, seq",
    sourceKey: "key",
    computed: { seq: `key & ${maxSeq}` },
  },
  {
    name: "navigations",
    columns: { conversation: "integer", after: "integer", target: "integer", micros: "integer" },
    key: "conversation, after",
  },
  {
    name: "model_calls",
    columns: { number: "integer", conversation: "integer", seq: "integer", tools: "text", json: "text" },
    key: "number",
    computed: { tools: "json ->> '$.digests.tools'" },
  },
  {
    name: "conversation_contexts",
    columns: { conversation_id: "text", document: "text", activated: "text" },
    key: "conversation_id",
  },
  {
    name: "conversation_agents",
    columns: { conversation_id: "text", document: "bytes" },
    key: "conversation_id",
  },
  {
    name: "conversation_secrets",
    columns: {
      ...{ number: "integer", conversation_id: "text", user_id: "text", sandbox_id: "text" },
      document: "bytes",
    },
    key: "number",
  },
  {
    name: "pending_messages",
    columns: {
      ...{ number: "integer", id: "text", user_id: "text", conversation_id: "text", content: "text" },
      ...time,
    },
    key: "number",
  },
  {
    name: "callbacks",
    columns: {
      ...{ number: "integer", id: "text", user_id: "text", conversation_id: "text", processor: "text" },
      ...{ secret: "bytes", status: "text", detail: "text", next_seq: "integer", attempts: "integer" },
      ...{ failing_since: "integer", next_attempt_at: "integer", ...time },
    },
    key: "number",
  },
  {
    name: "start_tasks",
    columns: {
      ...{ number: "integer", id: "text", user_id: "text", status: "text", detail: "text" },
      ...{ conversation_id: "text", sandbox_id: "text", request: "text", ...time, updated_at: "integer" },
    },
    key: "number",
  },
  {
    name: "sandboxes",
    columns: {
      ...{ number: "integer", id: "text", user_id: "text", spec_id: "text", status: "text" },
      ...{ status_detail: "text", incarnation: "text", session_key: "bytes", ...time, spec: "text" },
      ...{ prepared: "boolean", snapshot_id: "text", last_used_at: "integer", place: "text" },
    },
    key: "number",
    derive: (_row, place) => ({ place }),
  },
  {
    name: "snapshots",
    columns: {
      ...{ number: "integer", id: "text", user_id: "text", sandbox_id: "text", spec: "text", ...time },
    },
    key: "number",
  },
  {
    name: "blobs",
    columns: { digest: "text", size: "integer", unused_since: "integer", claimed_at: "integer" },
    key: "digest",
  },
  {
    name: "blob_references",
    columns: { holder: "text", digest: "text", user_id: "text", kept_at: "integer" },
    key: "holder",
  },
  {
    name: "behaviours",
    columns: {
      ...{ number: "integer", holder: "text", user_id: "text", working_dir: "text", digest: "text" },
      ...{ origin: "text", parts: "text" },
    },
    key: "number",
  },
  {
    name: "accepted_behaviours",
    columns: {
      ...{ number: "integer", user_id: "text", digest: "text", origin: "text", parts: "text" },
      accepted_at: "integer",
    },
    key: "number",
  },
  { name: "settings", columns: { user_id: "text", document: "bytes" }, key: "user_id" },
  { name: "user_secrets", columns: { user_id: "text", document: "bytes" }, key: "user_id" },
  {
    name: "api_keys",
    columns: {
      ...{ id: "text", user_id: "text", name: "text", hash: "bytes", ...time, expires_at: "integer" },
      ...{ last_used_at: "integer", read_only: "boolean" },
    },
    key: "id",
  },
  {
    name: "logins",
    columns: { hash: "bytes", key_id: "text", ...time, expires_at: "integer" },
    key: "hash",
  },
  {
    name: "spending",
    columns: { user_id: "text", day: "text", part: "integer", usd: "double" },
    key: "user_id, day, part",
    sourceKey: "user_id, day",
    computed: { part: "0" },
  },
  {
    name: "stored_bytes",
    columns: { user_id: "text", part: "integer", bytes: "integer" },
    key: "user_id, part",
    sourceKey: "user_id",
    computed: { part: "0" },
  },
];

/** Columns that PostgreSQL repeats for look-ups, and the cost that `spending` has already. */
function deriveConversation(row: Readonly<Record<string, Value>>): Record<string, Value> {
  const config = JSON.parse(row.config as string) as ConversationConfig;
  const columns = Object.entries(postgresDialect.configColumns(config)).map(
    ([name, value]): [string, Value] => [name, typeof value === "boolean" ? Number(value) : (value as Value)],
  );
  return { ...Object.fromEntries(columns), counted_cost: countedCost(row) };
}

function countedCost({ stats, metrics }: Readonly<Record<string, Value>>): number {
  if (typeof stats === "string") return getOwnCost(JSON.parse(stats) as Stats);
  if (typeof metrics !== "string") return 0;
  return (JSON.parse(metrics) as MetricsSnapshot).accumulated_cost ?? 0;
}
