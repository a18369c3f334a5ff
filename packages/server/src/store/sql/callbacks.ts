import type { Selectable } from "kysely";
import type { CallbackChange, CallbackRow, CallbackStore } from "../callback-store.ts";
import type { SandboxScope } from "../sandbox-scope.ts";
import type { SqlContext } from "./context.ts";
import { scopeQueries } from "./scope-queries.ts";
import type { Statement } from "./statement.ts";
import { type CallbackRecord, compile } from "./tables.ts";

type Stored = Selectable<CallbackRecord>;

const serverProcessor = JSON.stringify({ kind: "ServerWebhook" });

export const callbackQueries = {
  get: "SELECT * FROM callbacks WHERE id = ?",
  ofConversation: "SELECT * FROM callbacks WHERE conversation_id = ? ORDER BY number",
  activeOf:
    "SELECT id, next_seq FROM callbacks WHERE conversation_id = ? AND status = 'ACTIVE' ORDER BY number",
} as const;

/** Statements over all rows, run once at the start of a server. */
const sweeps = {
  behind: `SELECT c.id, c.conversation_id FROM callbacks c JOIN conversations v ON v.id = c.conversation_id
    WHERE c.status = 'ACTIVE' AND c.next_seq <= v.last_seq ORDER BY c.number`,
  cover: `INSERT INTO callbacks (id, user_id, conversation_id, processor, status, next_seq, created_at)
    SELECT v.id, v.user_id, v.id, CAST(? AS TEXT), 'ACTIVE', v.last_seq + 1, CAST(? AS BIGINT) FROM conversations v
    WHERE NOT EXISTS (SELECT 1 FROM callbacks c WHERE c.id = v.id)`,
  revive: `UPDATE callbacks SET status = 'ACTIVE', detail = NULL, attempts = 0, failing_since = NULL, next_attempt_at = NULL
    WHERE processor = ? AND status = 'FAILED'`,
  uncover: "DELETE FROM callbacks WHERE processor = ?",
} as const;

/** Callbacks with their cursors in the log; secrets are encrypted. */
export class SqlCallbacks implements CallbackStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async create(rows: readonly CallbackRow[]): Promise<void> {
    if (rows.length > 0) await this.#context.writer.run(insertCallbacks(this.#context, rows));
  }

  async get(id: string): Promise<CallbackRow | undefined> {
    const stored = await this.#context.reader.get<Stored>(callbackQueries.get, id);
    return stored && this.#fromStored(stored);
  }

  async listByConversation(conversationId: string): Promise<CallbackRow[]> {
    return (await this.#context.reader.all<Stored>(callbackQueries.ofConversation, conversationId)).map(
      (stored) => this.#fromStored(stored),
    );
  }

  async listActive(conversationId: string): Promise<{ id: string; nextSeq: number }[]> {
    return (
      await this.#context.reader.all<{ id: string; next_seq: number }>(
        callbackQueries.activeOf,
        conversationId,
      )
    ).map(({ id, next_seq }) => ({ id, nextSeq: next_seq }));
  }

  async listPending(scope: SandboxScope = "all"): Promise<{ id: string; conversationId: string }[]> {
    const { reader, dialect } = this.#context;
    type Row = { id: string; conversation_id: string };
    const rows =
      scope === "all"
        ? await reader.all<Row>(sweeps.behind)
        : await reader.all<Row>(scopeQueries(dialect.queries).pendingCallbacks, JSON.stringify(scope));
    return rows.map(({ id, conversation_id }) => ({ id, conversationId: conversation_id }));
  }

  async update(id: string, change: CallbackChange): Promise<void> {
    const update = this.#context.build
      .updateTable("callbacks")
      .set({
        ...(change.status !== undefined && { status: change.status }),
        ...(change.detail !== undefined && { detail: change.detail }),
        ...(change.nextSeq !== undefined && { next_seq: change.nextSeq }),
        ...(change.attempts !== undefined && { attempts: change.attempts }),
        ...(change.failingSince !== undefined && { failing_since: change.failingSince }),
        ...(change.nextAttemptAt !== undefined && { next_attempt_at: change.nextAttemptAt }),
      })
      .where("id", "=", id)
      // A slow node must not take back the progress of a delivery by another node.
      .$if(change.nextSeq !== undefined, (query) => query.where("next_seq", "<=", change.nextSeq!));
    await this.#context.writer.run(compile(update));
  }

  async remove(id: string): Promise<boolean> {
    const remove = this.#context.build.deleteFrom("callbacks").where("id", "=", id);
    return (await this.#context.writer.release(compile(remove))) > 0;
  }

  async removeByConversation(conversationId: string): Promise<void> {
    const remove = this.#context.build.deleteFrom("callbacks").where("conversation_id", "=", conversationId);
    await this.#context.writer.release(compile(remove));
  }

  async addServerWebhooks(): Promise<void> {
    await this.#context.writer.run(
      { sql: sweeps.cover, parameters: [serverProcessor, this.#context.clock()] },
      { sql: sweeps.revive, parameters: [serverProcessor] },
    );
  }

  async removeServerWebhooks(): Promise<void> {
    await this.#context.writer.run({ sql: sweeps.uncover, parameters: [serverProcessor] });
  }

  #fromStored(stored: Stored): CallbackRow {
    return {
      id: stored.id,
      userId: stored.user_id,
      conversationId: stored.conversation_id,
      processor: JSON.parse(stored.processor),
      secret: stored.secret === null ? null : this.#context.vault.decrypt(stored.secret, place(stored.id)),
      status: stored.status,
      detail: stored.detail,
      nextSeq: stored.next_seq,
      attempts: stored.attempts,
      failingSince: stored.failing_since,
      nextAttemptAt: stored.next_attempt_at,
      createdAt: stored.created_at,
    };
  }
}

/** The statement that stores at least one callback. */
export function insertCallbacks(
  { build, vault }: Pick<SqlContext, "build" | "vault">,
  rows: readonly CallbackRow[],
): Statement {
  const values = rows.map((row) => ({
    id: row.id,
    user_id: row.userId,
    conversation_id: row.conversationId,
    processor: JSON.stringify(row.processor),
    secret: row.secret === null ? null : vault.encrypt(row.secret, place(row.id)),
    status: row.status,
    detail: row.detail,
    next_seq: row.nextSeq,
    attempts: row.attempts,
    failing_since: row.failingSince,
    next_attempt_at: row.nextAttemptAt,
    created_at: row.createdAt,
  }));
  return compile(build.insertInto("callbacks").values(values));
}

function place(id: string): string {
  return `callback:${id}`;
}
