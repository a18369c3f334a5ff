import { PlatformError } from "@sandpiper/core/errors";
import { type PageRequest, type PageResult, pageOffset } from "@sandpiper/core/paging";
import { hexId } from "@sandpiper/wire";
import { type Selectable, type SelectQueryBuilder, sql } from "kysely";
import type { SandboxScope } from "../sandbox-scope.ts";
import {
  NewerStart,
  type OpenStarts,
  type StartParts,
  type StartTaskFilter,
  type StartTaskRow,
  type StartTaskStore,
} from "../start-task-store.ts";
import { insertCallbacks } from "./callbacks.ts";
import { ConstraintViolation } from "./constraint-violation.ts";
import type { SqlContext } from "./context.ts";
import { sealSecrets } from "./conversation-secrets.ts";
import type { WriteLimit } from "./engine.ts";
import { isNotStarting, removeRelated } from "./related-rows.ts";
import { scopeQueries } from "./scope-queries.ts";
import type { Statement } from "./statement.ts";
import { compile, type StartTaskRecord, type Tables } from "./tables.ts";

type Stored = Selectable<StartTaskRecord>;
type SortedPage = Parameters<StartTaskStore["search"]>[1];

export const startTaskQueries = {
  get: "SELECT * FROM start_tasks WHERE id = ?",
  open: "SELECT * FROM start_tasks WHERE status NOT IN ('READY', 'ERROR') ORDER BY number",
  newest: "SELECT max(number) AS number FROM start_tasks WHERE user_id = ?",
} as const;

/** Ended tasks of a user that are kept, and the bytes of their requests. */
const maxEnded = 1_000;
const maxEndedBytes = 64 * 2 ** 20;

/** Tasks of a user that are not over, and the bytes of their requests. */
const maxOpen = 1_000;
const maxOpenBytes = 256 * 2 ** 20;

/**
 * Makes the transaction fail when the conversation of a new task exists, by a second task with the
 * same id. The new task comes first: then no other start is open, and one that was has stored its
 * conversation.
 */
const refuseStored = `INSERT INTO start_tasks (id, user_id, status, conversation_id, request, created_at, updated_at)
  SELECT id, user_id, status, conversation_id, request, created_at, updated_at FROM start_tasks
  WHERE id = ?1 AND status NOT IN ('READY', 'ERROR')
    AND EXISTS (SELECT 1 FROM conversations WHERE id = start_tasks.conversation_id)`;

/** Makes the transaction fail in the same way when the user has a start with a higher number. */
const refuseOlder = `INSERT INTO start_tasks (id, user_id, status, conversation_id, request, created_at, updated_at)
  SELECT id, user_id, status, conversation_id, request, created_at, updated_at FROM start_tasks own
  WHERE id = ?1
    AND EXISTS (SELECT 1 FROM start_tasks WHERE user_id = own.user_id AND number > ?2 AND id <> ?1)`;

/** Statements that remove what a failed start leaves, unless another start has begun. */
const leftovers = [
  `DELETE FROM pending_messages WHERE conversation_id = ?1 AND ${isNotStarting}`,
  ...removeRelated,
];

const removeOld = `DELETE FROM start_tasks WHERE number IN
  (SELECT number FROM
    (SELECT number, row_number() OVER newest AS count, sum(octet_length(request)) OVER newest AS bytes
     FROM start_tasks WHERE user_id = ?1 AND status IN ('READY', 'ERROR') WINDOW newest AS (ORDER BY created_at DESC, number DESC)) ended
   WHERE count > ?2 OR bytes > ?3)`;

const ended: readonly StartTaskRow["status"][] = ["READY", "ERROR"];

export class SqlStartTasks implements StartTaskStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async create(row: StartTaskRow, parts: StartParts = {}): Promise<void> {
    const { newest, owner, secrets, callbacks = [] } = parts;
    const { build, dialect, vault, writer } = this.#context;
    const { conversationId } = row;
    const request = JSON.stringify(row.request ?? null);
    const insert = build.insertInto("start_tasks").values({
      ...dialect.startTaskOwner(owner),
      id: row.id,
      user_id: row.userId,
      status: row.status,
      detail: row.detail,
      conversation_id: row.conversationId,
      sandbox_id: row.sandboxId,
      request,
      created_at: row.createdAt,
      updated_at: row.updatedAt,
    });
    try {
      await writer.addWithin(
        this.#limitOf(row.userId, Buffer.byteLength(request)),
        compile(insert),
        { sql: refuseStored, parameters: [row.id] },
        ...(newest === undefined ? [] : [{ sql: refuseOlder, parameters: [row.id, newest] }]),
        // A failed start may have left them.
        compile(build.deleteFrom("conversation_secrets").where("conversation_id", "=", conversationId)),
        compile(build.deleteFrom("callbacks").where("conversation_id", "=", conversationId)),
        ...(secrets
          ? [compile(build.insertInto("conversation_secrets").values(sealSecrets(vault, secrets)))]
          : []),
        ...(callbacks.length > 0 ? [insertCallbacks(this.#context, callbacks)] : []),
        { sql: removeOld, parameters: [row.userId, maxEnded, maxEndedBytes] },
      );
    } catch (error) {
      if (!(error instanceof ConstraintViolation)) throw error;
      if (newest !== undefined && (await this.#newest(row.userId)) > newest) throw new NewerStart();
      throw new PlatformError("ConversationIdTaken", { id: hexId(conversationId) }, { cause: error });
    }
  }

  async claim(owner: string): Promise<StartTaskRow[]> {
    const { writer, reader, dialect } = this.#context;
    const { startTaskClaim } = dialect.queries;
    if (!startTaskClaim) return [];
    await writer.run({ sql: startTaskClaim.take, parameters: [owner] });
    return (await reader.all<Stored>(startTaskClaim.taken, owner)).map(fromStored);
  }

  async isOwner(id: string, owner: string): Promise<boolean> {
    const { reader, dialect } = this.#context;
    const { startTaskClaim } = dialect.queries;
    return !startTaskClaim || (await reader.get(startTaskClaim.isOwner, id, owner)) !== undefined;
  }

  #limitOf(userId: string, more: number): WriteLimit {
    const open = this.#context.dialect.queries.openStartTasks;
    return {
      userId,
      full: {
        sql: `SELECT 1 FROM (${open}) open WHERE tasks >= ? OR bytes > ?`,
        parameters: [userId, maxOpen, maxOpenBytes - more],
      },
      refuse: () => new PlatformError("TooManyStarts"),
      countsBytes: true,
    };
  }

  async update(
    id: string,
    change: Partial<Pick<StartTaskRow, "status" | "detail" | "sandboxId">>,
    owner?: string,
  ): Promise<StartTaskRow> {
    const update = this.#context.build
      .updateTable("start_tasks")
      .set({
        updated_at: this.#context.clock(),
        ...(change.status !== undefined && { status: change.status }),
        ...(change.detail !== undefined && { detail: change.detail }),
        ...(change.sandboxId !== undefined && { sandbox_id: change.sandboxId }),
      })
      .where("id", "=", id)
      .where("status", "not in", [...ended])
      .$if(owner !== undefined, (query) => query.where(sql<boolean>`owner = ${owner}`));
    const changed = await this.#context.writer.run(compile(update));
    const row = await this.#require(id);
    if (changed === 0 && !ended.includes(row.status)) throw new PlatformError("EpochPassed");
    return row;
  }

  async fail(id: string, detail: string, owner?: string): Promise<StartTaskRow> {
    const { clock, dialect, writer } = this.#context;
    const { conversationId } = await this.#require(id);
    const isOwned = (owner !== undefined && dialect.queries.startTaskClaim?.isOwned) || "";
    await writer.release(
      {
        sql: `UPDATE start_tasks SET status = 'ERROR', detail = ?1, updated_at = ?2
          WHERE id = ?3 AND status NOT IN ('READY', 'ERROR') ${isOwned}`,
        parameters: [detail, clock(), id, ...(isOwned ? [owner!] : [])],
      },
      ...leftovers.map((sql) => ({ sql, parameters: [conversationId] })),
    );
    return this.#require(id);
  }

  async #require(id: string): Promise<StartTaskRow> {
    const row = await this.get(id);
    if (!row) throw new PlatformError("StoredStartTaskMissing");
    return row;
  }

  async get(id: string): Promise<StartTaskRow | undefined> {
    const stored = await this.#context.reader.get<Stored>(startTaskQueries.get, id);
    return stored && fromStored(stored);
  }

  async search(filter: StartTaskFilter, page: SortedPage): Promise<PageResult<StartTaskRow>> {
    const { items, nextPageId } = await this.#context.reader.page<"request", Stored>(
      this.searchStatement(filter, page),
      "request",
      page,
    );
    return { items: items.map(fromStored), nextPageId };
  }

  /** The statement of a search, also for the test of its plan. */
  searchStatement(filter: StartTaskFilter, page: PageRequest & Pick<SortedPage, "sort">): Statement {
    const column = page.sort.startsWith("CREATED_AT") ? "created_at" : "updated_at";
    const direction = page.sort.endsWith("_DESC") ? "desc" : "asc";
    const query = applyFilter(this.#context.build.selectFrom("start_tasks").selectAll(), filter)
      .orderBy(column, direction)
      .orderBy("number", direction);
    return compile(query.limit(page.limit + 1).offset(pageOffset(page.pageId)));
  }

  async count(filter: StartTaskFilter): Promise<number> {
    const query = applyFilter(this.#context.build.selectFrom("start_tasks"), filter);
    const counted = query.select((expression) => expression.fn.countAll<number>().as("count"));
    return (await this.#context.reader.select<{ count: number }>(compile(counted)))[0]!.count;
  }

  async findOpen(userId: string): Promise<OpenStarts> {
    const { build, reader } = this.#context;
    // A start that comes between the two reads is newer than `newest`.
    const newest = await this.#newest(userId);
    const open = build
      .selectFrom("start_tasks")
      .select("sandbox_id")
      .where("user_id", "=", userId)
      .where("status", "not in", ["READY", "ERROR"]);
    const rows = await reader.select<{ sandbox_id: string | null }>(compile(open));
    return { sandboxIds: rows.flatMap(({ sandbox_id }) => sandbox_id ?? []), newest };
  }

  async #newest(userId: string): Promise<number> {
    const { reader } = this.#context;
    return (await reader.get<{ number: number | null }>(startTaskQueries.newest, userId))?.number ?? 0;
  }

  async listOpen(scope: SandboxScope = "all"): Promise<StartTaskRow[]> {
    const { reader, dialect } = this.#context;
    const rows =
      scope === "all"
        ? await reader.all<Stored>(startTaskQueries.open)
        : await reader.all<Stored>(scopeQueries(dialect.queries).startTasks, JSON.stringify(scope));
    return rows.map(fromStored);
  }
}

function applyFilter<Row>(query: SelectQueryBuilder<Tables, "start_tasks", Row>, filter: StartTaskFilter) {
  return query
    .where("user_id", "=", filter.userId)
    .$if(filter.conversationId !== undefined, (q) => q.where("conversation_id", "=", filter.conversationId!))
    .$if(filter.createdAtGte !== undefined, (q) => q.where("created_at", ">=", filter.createdAtGte!));
}

function fromStored(stored: Stored): StartTaskRow {
  return {
    id: stored.id,
    userId: stored.user_id,
    status: stored.status,
    detail: stored.detail,
    conversationId: stored.conversation_id,
    sandboxId: stored.sandbox_id,
    request: JSON.parse(stored.request),
    createdAt: stored.created_at,
    updatedAt: stored.updated_at,
  };
}
