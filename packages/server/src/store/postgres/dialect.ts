import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from "kysely";
import type { ConversationConfig } from "../conversation-store.ts";
import { compareAndSet } from "../sql/compare-and-set.ts";
import type { SqlDialect } from "../sql/dialect.ts";
import { compile, type Tables } from "../sql/tables.ts";

/** A builder that only compiles statements; the pool runs them. */
export function createQueryBuilder(): Kysely<Tables> {
  return new Kysely<Tables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (database) => new PostgresIntrospector(database),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
}

const children = `SELECT id, parent_id FROM conversations
  WHERE parent_id = ANY (ARRAY(SELECT json_array_elements_text(CAST($1 AS json))))`;
const inOrder = "ORDER BY parent_id, created_at, number";
/** The open start tasks with their sandboxes, if those exist. */
const openStarts = `start_tasks t LEFT JOIN sandboxes s ON s.id = t.sandbox_id
  WHERE t.status NOT IN ('READY', 'ERROR')`;
const columnOf = { selectedRepository: "repository", trigger: "trigger_name" } as const;

export const postgresDialect: SqlDialect = {
  greatest: (column, value) => sql<number>`greatest(${sql.ref(column)}, ${value})`,
  // The columns have the collation "C", in which only ASCII letters have two cases.
  titleMatches: (pattern) => sql<boolean>`title ILIKE ${pattern} ESCAPE ''`,
  configField: (name) => sql<string>`${sql.ref(columnOf[name])}`,
  // PostgreSQL cannot read a JSON with an escaped zero character, so look-ups read columns.
  configColumns: (config) => ({
    repository: config.selectedRepository,
    trigger_name: config.trigger,
    goal_status: config.goal?.status ?? null,
    is_task: config.task !== undefined,
    external: config.external === true,
  }),
  startTaskOwner: (owner) => ({ owner: owner ?? null }),
  countedCost: (metrics) => ({ counted_cost: metrics?.accumulated_cost ?? 0 }),
  async changeConfig({ build, reader, writer }, id, { columns, fields }) {
    const get = "SELECT config FROM conversations WHERE id = ?";
    return compareAndSet(async () => {
      const row = await reader.get<{ config: string }>(get, id);
      if (!row) return 0;
      const config = { ...(JSON.parse(row.config) as ConversationConfig), ...fields };
      const update = build
        .updateTable("conversations")
        .set({ ...columns, ...postgresDialect.configColumns(config), config: JSON.stringify(config) })
        .where("id", "=", id)
        .where("config", "=", row.config);
      // Another change came first, so this change is applied to its result.
      return (await writer.run(compile(update))) || undefined;
    });
  },
  queries: {
    childrenOf: `${children} ${inOrder}`,
    childrenWithoutTasks: `${children} AND NOT is_task ${inOrder}`,
    conversationsWithGoal: "SELECT * FROM conversations WHERE goal_status = 'running' ORDER BY number",
    hasActiveGoal: "goal_status = 'running'",
    isListed: "= ANY (ARRAY(SELECT json_array_elements_text(CAST(?1 AS json))))",
    startTaskClaim: {
      take: `UPDATE start_tasks SET owner = ?1 WHERE number IN (SELECT t.number FROM ${openStarts}
        AND t.owner IS DISTINCT FROM ?1 AND (s.owner = ?1 OR (s.id IS NULL AND NOT EXISTS
          (SELECT 1 FROM nodes n WHERE n.incarnation = t.owner AND n.expires_at > clock_timestamp())))
        ORDER BY t.number LIMIT 20 FOR UPDATE OF t SKIP LOCKED)`,
      taken: `SELECT t.* FROM ${openStarts}
        AND t.owner = ?1 AND (s.id IS NULL OR s.owner = ?1) ORDER BY t.number`,
      isOwner: `SELECT 1 AS found FROM start_tasks t JOIN nodes n ON n.incarnation = t.owner
        WHERE t.id = ?1 AND t.owner = ?2 AND n.expires_at > clock_timestamp()`,
      isOwned: "AND owner = ?4",
      holdSandbox:
        "SELECT 1 FROM sandboxes WHERE id = (SELECT sandbox_id FROM start_tasks WHERE id = ?1) FOR UPDATE",
      // A second task with the same id is refused.
      refuseOthers: `WITH held AS (SELECT * FROM start_tasks WHERE id = ?1 FOR UPDATE)
        INSERT INTO start_tasks (id, user_id, status, conversation_id, request, created_at, updated_at)
        SELECT id, user_id, status, conversation_id, request, created_at, updated_at FROM held
        WHERE owner IS DISTINCT FROM ?2`,
    },
    openStartTasks: `SELECT count(*) AS tasks, coalesce(sum(octet_length(request)), 0) AS bytes
      FROM start_tasks WHERE status NOT IN ('READY', 'ERROR') AND user_id = ?`,
    modelCalls: `SELECT m.number, m.seq, m.json FROM model_calls m JOIN conversations c ON c.number = m.conversation
      WHERE c.id = $1 AND m.number > $2 ORDER BY m.number LIMIT $3`,
    lastTools: `SELECT m.tools FROM model_calls m JOIN conversations c ON c.number = m.conversation
      WHERE c.id = $1 AND m.tools IS NOT NULL ORDER BY m.number DESC LIMIT 1`,
  },
};
