import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestStore } from "../../../test/support/store.ts";
import { blobQueries } from "../sql/blobs.ts";
import { callbackQueries } from "../sql/callbacks.ts";
import { conversationQueries, type SqlConversations } from "../sql/conversations.ts";
import { pendingMessageQueries } from "../sql/pending-messages.ts";
import { sandboxQueries } from "../sql/sandboxes.ts";
import { scopeQueries } from "../sql/scope-queries.ts";
import { snapshotQueries } from "../sql/snapshots.ts";
import { type SqlStartTasks, startTaskQueries } from "../sql/start-tasks.ts";
import type { Statement } from "../sql/statement.ts";
import { sqliteDialect } from "./dialect.ts";
import { eventQueries } from "./event-queries.ts";

let close: () => Promise<void>;
let database: DatabaseSync;
let conversations: SqlConversations;
let startTasks: SqlStartTasks;

beforeAll(async () => {
  const test = await createTestStore();
  conversations = test.store.conversations as SqlConversations;
  startTasks = test.store.startTasks as SqlStartTasks;
  close = test.close;
  database = new DatabaseSync(join(test.dir, "store", "sandpiper.db"), { readOnly: true });
});

afterAll(async () => {
  database.close();
  await close();
});

/**
 * Steps of a plan that read more than they give: a scan of a table or of a whole index, or a sort.
 */
function costly({ sql, parameters }: Statement): string[] {
  const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...parameters) as { detail: string }[];
  expect(plan.length).toBeGreaterThan(0);
  // A page that is built from another page reads that page.
  const cheap =
    /^(SEARCH|CO-ROUTINE|SCAN \(subquery-\d+\)|SCAN json_each|LIST SUBQUERY|CREATE BLOOM FILTER|SCALAR SUBQUERY|CORRELATED|SCAN \w+ USING INDEX \w+_(running|open)$)/;
  return plan.map((step) => step.detail).filter((detail) => !cheap.test(detail));
}

const fixed = { ...prefixed("events", eventQueries), ...prefixed("conversations", conversationQueries) };
const {
  hasActiveGoal: _goal,
  isListed: _listed,
  startTaskClaim: _claim,
  ...statements
} = sqliteDialect.queries;
const others = {
  ...prefixed("start tasks", startTaskQueries),
  ...prefixed("sandboxes", sandboxQueries),
  ...prefixed("snapshots", snapshotQueries),
  ...prefixed("blobs", blobQueries),
  ...prefixed("callbacks", callbackQueries),
  ...prefixed("pending messages", pendingMessageQueries),
  ...prefixed("dialect", statements),
  ...prefixed("scopes", scopeQueries(sqliteDialect.queries)),
};

/** Counts the parameters of a statement, in which a numbered parameter may occur several times. */
function countParameters(sql: string): number {
  const numbered = Array.from(sql.matchAll(/\?(\d+)/g), ([, number]) => Number(number));
  return numbered.length > 0 ? Math.max(...numbered) : sql.split("?").length - 1;
}

function prefixed(table: string, queries: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(queries).map(([name, sql]) => [`${table} ${name}`, sql]));
}

test.each(Object.entries({ ...fixed, ...others }))("%s reads an index in its order", (_name, sql) => {
  const parameters = Array(countParameters(sql)).fill(1);
  expect(costly({ sql, parameters })).toEqual([]);
});

test.each([
  ["read", "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
  ["byId", "INDEX events_by_id (conversation=? AND id=?)"],
  ["timeOf", "INDEX events_listed (conversation=? AND listed_index=?)"],
  ["ascending", "INDEX events_listed (conversation=? AND listed_index>? AND listed_index<?)"],
  ["descending", "INDEX events_listed (conversation=? AND listed_index>? AND listed_index<?)"],
  ["kindAscending", "INDEX events_by_kind (conversation=? AND kind=? AND listed_index>? AND listed_index<?)"],
  [
    "kindDescending",
    "INDEX events_by_kind (conversation=? AND kind=? AND listed_index>? AND listed_index<?)",
  ],
  [
    "kindCount",
    "COVERING INDEX events_by_kind (conversation=? AND kind=? AND listed_index>? AND listed_index<?)",
  ],
] as const)("events %s uses every condition to find its rows", (name, use) => {
  const plan = database
    .prepare(`EXPLAIN QUERY PLAN ${eventQueries[name]}`)
    .all(...Array(countParameters(eventQueries[name])).fill(1));
  expect(plan).toMatchObject([{ detail: `SEARCH events USING ${use}` }]);
});

const userId = "default";
test.each([
  { userId },
  { userId, includeSubConversations: false },
  { userId, titleContains: "bug", updatedAtGte: 1, updatedAtLt: 9 },
  { userId, createdAtGte: 1, createdAtLt: 9 },
  { userId, sandboxId: "s" },
  { userId, selectedRepository: "a/b", trigger: "gui", includeSubConversations: false },
])("a search for conversations by %o reads an index in its order", (filter) => {
  expect(costly(conversations.searchStatement(filter, { limit: 100, pageId: "100" }))).toEqual([]);
});

test("a search for the conversations of a repository reads only those", () => {
  const { sql, parameters } = conversations.searchStatement(
    { userId, selectedRepository: "a/b" },
    { limit: 20 },
  );
  const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...parameters);
  expect(plan).toMatchObject([
    { detail: expect.stringContaining("conversations_by_repository (user_id=? AND <expr>=?)") },
  ]);
});

test.each(["CREATED_AT", "CREATED_AT_DESC", "UPDATED_AT", "UPDATED_AT_DESC"] as const)(
  "a search for start tasks by %s reads an index in its order",
  (sort) => {
    expect(costly(startTasks.searchStatement({ userId }, { limit: 100, sort }))).toEqual([]);
  },
);
