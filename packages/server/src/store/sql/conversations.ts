import { PlatformError } from "@sandpiper/core/errors";
import { type PageResult, pageOffset, toPage } from "@sandpiper/core/paging";
import { newId } from "@sandpiper/wire";
import { type SelectQueryBuilder, sql } from "kysely";
import type { Span } from "../branch.ts";
import type { AgentDocument } from "../conversation-parts.ts";
import type {
  ConversationChange,
  ConversationFilter,
  ConversationPage,
  ConversationRow,
  ConversationStore,
  CopiedLog,
  FailedStart,
  ListPosition,
  NewConversation,
} from "../conversation-store.ts";
import type { SandboxScope } from "../sandbox-scope.ts";
import { ConstraintViolation } from "./constraint-violation.ts";
import type { SqlContext } from "./context.ts";
import { creationStatements } from "./conversation-creation.ts";
import type { SqlDialect } from "./dialect.ts";
import type { WriteLimit } from "./engine.ts";
import { removeRelated } from "./related-rows.ts";
import { scopeQueries } from "./scope-queries.ts";
import type { Statement } from "./statement.ts";
import { type ConversationRecord, compile, type Tables } from "./tables.ts";

type Stored = Omit<ConversationRecord, "execution_status" | "metrics" | "head" | "stats" | "unclean_ends"> & {
  head: string | null;
  stats: string | null;
  execution_status: ConversationRow["summary"]["executionStatus"];
  metrics: string | null;
};

/** Prefix of the id of a log that is being copied; its conversation has no user. */
const copyPrefix = "copy-";
const noUser = "";

/** Events per copying transaction, which blocks other writes. */
const copyBatchSize = 500;

/** SQLite refuses longer patterns (SQLITE_MAX_LIKE_PATTERN_LENGTH); titles are far shorter. */
const maxTitlePattern = 1000;

/** Fixed statements; those of `search` and `count` are built from the filter. */
export const conversationQueries = {
  isSandboxFull: "SELECT 1 FROM conversations WHERE sandbox_id = ? LIMIT 1 OFFSET ?",
  running: "SELECT * FROM conversations WHERE execution_status = 'running' ORDER BY number",
  bySandbox: "SELECT * FROM conversations WHERE sandbox_id = ? ORDER BY created_at DESC, number DESC",
} as const;

/** Statements over all running conversations, run at the start and the end of a server. */
const conversationSweeps = {
  addEnd: "UPDATE conversations SET unclean_ends = unclean_ends + 1 WHERE execution_status = 'running'",
  takeEnd: "UPDATE conversations SET unclean_ends = unclean_ends - 1 WHERE execution_status = 'running'",
} as const;

const removal = `DELETE FROM conversations WHERE id = ?1 AND sandbox_id = coalesce(CAST(?2 AS TEXT), sandbox_id)
  AND NOT EXISTS (SELECT 1 FROM conversations WHERE parent_id = ?1)`;

/** An unfinished start would create the conversation again after a crash. */
const endStarts = `UPDATE start_tasks SET status = 'ERROR', detail = ?1, updated_at = ?2
  WHERE conversation_id = ?3 AND status NOT IN ('READY', 'ERROR') AND NOT EXISTS (SELECT 1 FROM conversations WHERE id = ?3)`;

export class SqlConversations implements ConversationStore {
  readonly #context: SqlContext;
  readonly #scoped: ReturnType<typeof scopeQueries>;

  constructor(context: SqlContext) {
    this.#context = context;
    this.#scoped = scopeQueries(context.dialect.queries);
  }

  async create(row: NewConversation, agent?: AgentDocument, log?: string): Promise<void> {
    const { writer } = this.#context;
    try {
      const statements = creationStatements(this.#context, row, agent, log);
      if (row.limit) await writer.addWithin(limitOf(row, row.limit.maxInSandbox), ...statements);
      else await writer.add(row.userId, ...statements);
    } catch (error) {
      if (error instanceof ConstraintViolation) {
        throw new PlatformError("ConversationIdTaken", { id: row.id });
      }
      throw error;
    }
  }

  async copyLog(
    sourceId: string,
    spans: readonly Span[],
    { head, metrics }: CopiedLog = { head: null, metrics: null },
  ): Promise<string> {
    const { build, dialect, writer, clock } = this.#context;
    const log = `${copyPrefix}${newId()}`;
    const now = clock();
    const values = {
      ...{ id: log, user_id: noUser, sandbox_id: "", config: "{}", title: null, parent_id: null },
      ...{ created_at: now, updated_at: now, head, metrics: metrics ? JSON.stringify(metrics) : null },
      ...dialect.countedCost(metrics),
    };
    await writer.run(compile(build.insertInto("conversations").values(values)));
    try {
      for (const { first, last } of spans) {
        for (let from = first; from <= last; from += copyBatchSize) {
          const span = { first: from, last: Math.min(from + copyBatchSize - 1, last) };
          await writer.copy({ conversationId: log, sourceId, span, nowMicros: now * 1000 });
        }
      }
    } catch (error) {
      await this.dropLog(log).catch(() => {});
      throw error;
    }
    return log;
  }

  async dropLog(log: string): Promise<void> {
    const { build, writer } = this.#context;
    await writer.run(
      compile(build.deleteFrom("conversations").where("id", "=", log).where("user_id", "=", noUser)),
    );
  }

  async get(id: string): Promise<ConversationRow | undefined> {
    const stored = await this.#context.reader.find<Stored>("conversations", "id", id);
    return stored && fromStored(stored);
  }

  async search(filter: ConversationFilter, page: ConversationPage): Promise<PageResult<ConversationRow>> {
    const rows = await this.#context.reader.select<Stored>(this.searchStatement(filter, page));
    return toPage(rows.map(fromStored), page);
  }

  /** The statement of a search, also for the test of its plan. */
  searchStatement(filter: ConversationFilter, page: ConversationPage): Statement {
    const { build, dialect } = this.#context;
    let query = applyFilter(build.selectFrom("conversations").selectAll(), filter, dialect);
    if (filter.includeSubConversations === false) query = query.where("parent_id", "is", null);
    const { sort = "CREATED_AT_DESC" } = page;
    const direction = sort.endsWith("_DESC") ? "desc" : "asc";
    const time = sort.startsWith("CREATED") ? "created_at" : "updated_at";
    query = query.orderBy(time, direction).orderBy("number", direction);
    if (page.from) query = query.where(positionCondition(page.from, time, direction));
    return compile(query.limit(page.limit + 1).offset(pageOffset(page.pageId)));
  }

  async count(filter: ConversationFilter): Promise<number> {
    const { build, dialect } = this.#context;
    const query = applyFilter(build.selectFrom("conversations"), filter, dialect);
    const counted = query.select((expression) => expression.fn.countAll<number>().as("count"));
    return (await this.#context.reader.select<{ count: number }>(compile(counted)))[0]!.count;
  }

  async listChildren(
    ids: readonly string[],
    { subAgents } = { subAgents: true },
  ): Promise<Map<string, string[]>> {
    const children = new Map<string, string[]>(ids.map((id) => [id, []]));
    const { queries } = this.#context.dialect;
    const rows = await this.#context.reader.all<{ id: string; parent_id: string }>(
      subAgents ? queries.childrenOf : queries.childrenWithoutTasks,
      JSON.stringify(ids),
    );
    for (const row of rows) children.get(row.parent_id)?.push(row.id);
    return children;
  }

  async update(id: string, { title, config = {} }: ConversationChange): Promise<void> {
    const { build, clock, dialect, writer } = this.#context;
    const fields = Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
    const columns = {
      ...(title !== undefined && { title }),
      updated_at: dialect.greatest("updated_at", clock()),
    };
    const changed =
      Object.keys(fields).length > 0
        ? await dialect.changeConfig(this.#context, id, { columns, fields })
        : await writer.run(compile(build.updateTable("conversations").set(columns).where("id", "=", id)));
    if (changed === 0) throw new PlatformError("StoredConversationMissing");
  }

  async replaceTitle(id: string, from: string | null, to: string): Promise<boolean> {
    const { build, clock, dialect, writer } = this.#context;
    const update = build
      .updateTable("conversations")
      .set({ title: to, updated_at: dialect.greatest("updated_at", clock()) })
      .where("id", "=", id)
      .where("title", "is not distinct from", from);
    return (await writer.run(compile(update))) > 0;
  }

  async remove(
    id: string,
    { failedStart, sandboxId }: Parameters<ConversationStore["remove"]>[1] = {},
  ): Promise<boolean> {
    const { build, clock, writer } = this.#context;
    const reason = failedStart?.reason ?? "The conversation was deleted while it was being started.";
    const related = removeRelated.map((sql) => ({ sql, parameters: [id] }));
    if (sandboxId === undefined && !(await this.get(id)))
      throw new PlatformError("StoredConversationMissing");
    const fence = this.#requireOwner(failedStart);
    const removed = writer.release(
      ...fence,
      { sql: removal, parameters: [id, sandboxId ?? null] },
      { sql: endStarts, parameters: [reason, clock(), id] },
      ...related,
      ...(sandboxId === undefined
        ? []
        : [compile(build.deleteFrom("sandboxes").where("id", "=", sandboxId))]),
    );
    await removed.catch((error) => {
      if (fence.length === 0 || !(error instanceof ConstraintViolation)) throw error;
      throw new PlatformError("EpochPassed", { cause: error });
    });
    if (await this.get(id)) return false;
    // PostgreSQL runs transactions at once: a row that another request stored during the removal is
    // left. A request that stores one later finds no conversation.
    await writer.release(...related);
    return true;
  }

  /** The statements that violate a constraint when another node owns a start. */
  #requireOwner({ taskId, owner }: Partial<FailedStart> = {}): Statement[] {
    const claim = this.#context.dialect.queries.startTaskClaim;
    if (!claim || taskId === undefined || owner === undefined) return [];
    return [
      { sql: claim.holdSandbox, parameters: [taskId] },
      { sql: claim.refuseOthers, parameters: [taskId, owner] },
    ];
  }

  listRunning(scope: SandboxScope = "all"): Promise<ConversationRow[]> {
    return this.#list(scope, conversationQueries.running, this.#scoped.running);
  }

  async countUncleanEnds(): Promise<void> {
    await this.#write(conversationSweeps.addEnd);
  }

  async markCleanEnd(): Promise<void> {
    await this.#write(conversationSweeps.takeEnd);
  }

  async listUncleanEnds(ids: readonly string[]): Promise<Map<string, number>> {
    type Row = { id: string; unclean_ends: number };
    const rows = await this.#context.reader.all<Row>(this.#scoped.uncleanEnds, JSON.stringify(ids));
    return new Map(rows.map(({ id, unclean_ends: ends }) => [id, ends]));
  }

  async #write(sql: string): Promise<void> {
    await this.#context.writer.run({ sql, parameters: [] });
  }

  listWithGoal(scope: SandboxScope = "all"): Promise<ConversationRow[]> {
    return this.#list(scope, this.#context.dialect.queries.conversationsWithGoal, this.#scoped.withGoal);
  }

  async #list(scope: SandboxScope, all: string, some: string): Promise<ConversationRow[]> {
    const { reader } = this.#context;
    const rows =
      scope === "all" ? await reader.all<Stored>(all) : await reader.all<Stored>(some, JSON.stringify(scope));
    return rows.map(fromStored);
  }

  async listBySandbox(sandboxId: string): Promise<ConversationRow[]> {
    return (await this.#context.reader.all<Stored>(conversationQueries.bySandbox, sandboxId)).map(fromStored);
  }
}

/**
 * A deleted conversation has no number: rows of the same millisecond may then repeat, but none is
 * lost.
 */
function positionCondition(
  { time, id, isFirst }: ListPosition,
  column: "created_at" | "updated_at",
  direction: "asc" | "desc",
) {
  const [compared, all] = direction === "asc" ? [">", 0] : ["<", Number.MAX_SAFE_INTEGER];
  const operator = sql.raw(isFirst ? `${compared}=` : compared);
  const number = sql`coalesce((SELECT number FROM conversations WHERE id = ${id}), ${all})`;
  return sql<boolean>`(${sql.ref(column)}, number) ${operator} (${time}, ${number})`;
}

function applyFilter<Row>(
  query: SelectQueryBuilder<Tables, "conversations", Row>,
  filter: ConversationFilter,
  dialect: SqlDialect,
): SelectQueryBuilder<Tables, "conversations", Row> {
  if (filter.titleContains !== undefined && filter.titleContains.length > maxTitlePattern) {
    throw new PlatformError("TitlePatternTooLong", { max: maxTitlePattern });
  }
  return query
    .where("user_id", "=", filter.userId)
    .$if(filter.titleContains !== undefined, (q) =>
      q.where(dialect.titleMatches(`%${filter.titleContains}%`)),
    )
    .$if(filter.createdAtGte !== undefined, (q) => q.where("created_at", ">=", filter.createdAtGte!))
    .$if(filter.createdAtLt !== undefined, (q) => q.where("created_at", "<", filter.createdAtLt!))
    .$if(filter.updatedAtGte !== undefined, (q) => q.where("updated_at", ">=", filter.updatedAtGte!))
    .$if(filter.updatedAtLt !== undefined, (q) => q.where("updated_at", "<", filter.updatedAtLt!))
    .$if(filter.sandboxId !== undefined, (q) => q.where("sandbox_id", "=", filter.sandboxId!))
    .$if(filter.status !== undefined, (q) => q.where("execution_status", "=", filter.status!))
    .$if(filter.selectedRepository !== undefined, (q) =>
      q.where(dialect.configField("selectedRepository"), "=", filter.selectedRepository!),
    )
    .$if(filter.trigger !== undefined, (q) => q.where(dialect.configField("trigger"), "=", filter.trigger!));
}

function fromStored(stored: Stored): ConversationRow {
  return {
    id: stored.id,
    userId: stored.user_id,
    sandboxId: stored.sandbox_id,
    config: JSON.parse(stored.config),
    title: stored.title,
    parentId: stored.parent_id,
    createdAt: stored.created_at,
    updatedAt: stored.updated_at,
    summary: {
      executionStatus: stored.execution_status,
      metrics: stored.metrics === null ? null : JSON.parse(stored.metrics),
      stats: stored.stats === null ? null : JSON.parse(stored.stats),
    },
    head: stored.head,
  };
}

function limitOf({ userId, sandboxId }: NewConversation, max: number): WriteLimit {
  return {
    userId,
    full: { sql: conversationQueries.isSandboxFull, parameters: [sandboxId, max - 1] },
    refuse: () => new PlatformError("TooManyReportedConversations", { max }),
    countsBytes: true,
  };
}
