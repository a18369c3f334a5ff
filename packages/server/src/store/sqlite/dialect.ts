import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler, sql } from "kysely";
import type { SqlDialect } from "../sql/dialect.ts";
import { compile, type Tables } from "../sql/tables.ts";

/** A builder that only compiles statements; the writer thread and the reader run them. */
export function createQueryBuilder(): Kysely<Tables> {
  return new Kysely<Tables>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (database) => new SqliteIntrospector(database),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  });
}

const children = `SELECT id, parent_id FROM conversations
  WHERE parent_id IN (SELECT value FROM json_each(?))`;
const inOrder = "ORDER BY parent_id, created_at, number";

export const sqliteDialect: SqlDialect = {
  greatest: (column, value) => sql<number>`max(${sql.ref(column)}, ${value})`,
  titleMatches: (pattern) => sql<boolean>`title LIKE ${pattern}`,
  configField: (name) => sql<string>`config ->> ${sql.lit(name)}`,
  // Look-ups read the JSON, through indexes on its fields.
  configColumns: () => ({}),
  countedCost: () => ({}),
  startTaskOwner: () => ({}),
  changeConfig({ build, writer }, id, { columns, fields }) {
    const places = Object.entries(fields).flatMap(([name, value]) => [
      sql`${`$.${name}`}`,
      sql`json(${JSON.stringify(value)})`,
    ]);
    const config = sql<string>`json_set(config, ${sql.join(places)})`;
    const update = build.updateTable("conversations").set({ ...columns, config });
    return writer.run(compile(update.where("id", "=", id)));
  },
  queries: {
    childrenOf: `${children} ${inOrder}`,
    childrenWithoutTasks: `${children} AND config -> '$.task' IS NULL ${inOrder}`,
    conversationsWithGoal:
      "SELECT * FROM conversations WHERE config ->> '$.goal.status' = 'running' ORDER BY number",
    hasActiveGoal: "config ->> '$.goal.status' = 'running'",
    isListed: "IN (SELECT value FROM json_each(?1))",
    openStartTasks: `SELECT count(*) AS tasks, coalesce(sum(octet_length(request)), 0) AS bytes
      FROM start_tasks INDEXED BY start_tasks_open WHERE status NOT IN ('READY', 'ERROR') AND user_id = ?`,
    modelCalls: `SELECT m.number, m.seq, m.json FROM model_calls m JOIN conversations c ON c.number = m.conversation
      WHERE c.id = ? AND m.number > ? ORDER BY m.number LIMIT ?`,
    lastTools: `SELECT m.json ->> '$.digests.tools' AS tools FROM model_calls m JOIN conversations c ON c.number = m.conversation
      WHERE c.id = ? AND m.json ->> '$.digests' IS NOT NULL ORDER BY m.number DESC LIMIT 1`,
  },
};
