import { afterAll, beforeAll, expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { conversationRow, message } from "../../../test/support/store.ts";
import { behaviourQueries } from "../sql/behaviours.ts";
import { blobQueries } from "../sql/blobs.ts";
import { callbackQueries } from "../sql/callbacks.ts";
import { conversationQueries, type SqlConversations } from "../sql/conversations.ts";
import { pendingMessageQueries } from "../sql/pending-messages.ts";
import { sandboxQueries } from "../sql/sandboxes.ts";
import { scopeQueries } from "../sql/scope-queries.ts";
import { snapshotQueries } from "../sql/snapshots.ts";
import { type SqlStartTasks, startTaskQueries } from "../sql/start-tasks.ts";
import type { SqlValue, Statement } from "../sql/statement.ts";
import { postgresDialect } from "./dialect.ts";
import { eventQueries } from "./event-queries.ts";
import { numberParameters } from "./parameters.ts";

let server: PostgresServer;
let place: string;
let close: () => Promise<void>;
let conversations: SqlConversations;
let startTasks: SqlStartTasks;

beforeAll(async () => {
  server = await startPostgres();
  const engine = postgresEngine(() => server);
  const test = await engine.createTestStore();
  ({ place, close } = test);
  conversations = test.store.conversations as SqlConversations;
  startTasks = test.store.startTasks as SqlStartTasks;
  // With this many rows the planner sees a difference between plans.
  const rows = Array.from({ length: 300 }, () => conversationRow());
  for (const row of rows) await test.store.conversations.create(row);
  for (const row of rows.slice(0, 20))
    await test.store.events.append(
      row.id,
      Array.from({ length: 200 }, () => message("text")),
    );
  await engine.query(place, "ANALYZE");
  // PostgreSQL reads a small table without an index, so the test makes the planner plan as for
  // large tables.
  for (const name of ["enable_seqscan", "enable_bitmapscan", "enable_sort"])
    await engine.query(place, `ALTER DATABASE ${new URL(place).pathname.slice(1)} SET ${name} = off`);
});
afterAll(async () => {
  await close();
  await server.remove();
});

interface Plan {
  "Node Type": string;
  Plans?: Plan[];
}

/** Steps of a plan that read a whole table or sort, if the planner may avoid them. */
async function costly({ sql, parameters }: Statement): Promise<string[]> {
  const database = new URL(place).pathname.slice(1);
  const text = numberParameters(sql);
  const literal = (value: SqlValue) =>
    typeof value === "number" ? String(value) : value === null ? "NULL" : `'${String(value)}'`;
  const filled = text.replace(/\$(\d+)/g, (_mark, number) => literal(parameters[Number(number) - 1]!));
  const explained = await server.query<{ "QUERY PLAN": { Plan: Plan }[] }>(
    `EXPLAIN (FORMAT JSON) ${filled}`,
    [],
    database,
  );
  const names: string[] = [];
  const visit = (plan: Plan) => {
    names.push(plan["Node Type"]);
    for (const part of plan.Plans ?? []) visit(part);
  };
  visit(explained[0]!["QUERY PLAN"][0]!.Plan);
  return names.filter((name) => /Seq Scan|Sort/.test(name));
}

function prefixed(table: string, queries: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(queries).map(([name, sql]) => [`${table} ${name}`, sql]));
}

const {
  hasActiveGoal: _goal,
  isListed: _listed,
  startTaskClaim: _claim,
  ...postgresStatements
} = postgresDialect.queries;
const fixed = {
  ...prefixed("events", eventQueries),
  ...prefixed("conversations", conversationQueries),
  ...prefixed("dialect", postgresStatements),
  ...prefixed("scopes", scopeQueries(postgresDialect.queries)),
  ...prefixed("start tasks", startTaskQueries),
  ...prefixed("sandboxes", sandboxQueries),
  ...prefixed("snapshots", snapshotQueries),
  ...prefixed("blobs", blobQueries),
  ...prefixed("callbacks", callbackQueries),
  ...prefixed("pending messages", pendingMessageQueries),
  ...prefixed("behaviours", behaviourQueries),
};
/** Statements that may sort, because their rows belong to few parents or to one log. */
const sorted = ["dialect childrenOf", "dialect childrenWithoutTasks", "events navigations"];

test.each(Object.entries(fixed))("%s reads an index in its order", async (name, sql) => {
  const count = Math.max(
    0,
    ...Array.from(numberParameters(sql).matchAll(/\$(\d+)/g), ([, one]) => Number(one)),
  );
  // The parameter is a text where the column is a text.
  const parameters = /children|scopes/.test(name) ? ['["1"]'] : Array(count).fill("1");
  const found = await costly({ sql, parameters });
  expect(sorted.includes(name) ? found.filter((step) => !step.includes("Sort")) : found).toEqual([]);
});

const userId = "default";
test.each([
  { userId },
  { userId, includeSubConversations: false },
  { userId, titleContains: "bug", updatedAtGte: 1, updatedAtLt: 9 },
  { userId, createdAtGte: 1, createdAtLt: 9 },
  { userId, sandboxId: "s" },
  { userId, selectedRepository: "a/b", trigger: "gui", includeSubConversations: false },
])("a search for conversations by %o reads an index in its order", async (filter) => {
  expect(await costly(conversations.searchStatement(filter, { limit: 100, pageId: "100" }))).toEqual([]);
});

test.each(["CREATED_AT", "CREATED_AT_DESC", "UPDATED_AT", "UPDATED_AT_DESC"] as const)(
  "a search for start tasks by %s reads an index in its order",
  async (sort) => {
    expect(await costly(startTasks.searchStatement({ userId }, { limit: 100, sort }))).toEqual([]);
  },
);
