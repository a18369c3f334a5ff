import type { Selectable } from "kysely";
import type { PendingMessageRow, PendingMessageStore } from "../conversation-parts.ts";
import type { SandboxScope } from "../sandbox-scope.ts";
import type { SqlContext } from "./context.ts";
import { scopeQueries } from "./scope-queries.ts";
import type { Statement } from "./statement.ts";
import { compile, type PendingMessageRecord } from "./tables.ts";

type Stored = Selectable<PendingMessageRecord>;

export const pendingMessageQueries = {
  of: "SELECT * FROM pending_messages WHERE conversation_id = ? ORDER BY number",
} as const;

/** Pending messages; `EventLog.append` removes a delivered one in its transaction. */
export class SqlPendingMessages implements PendingMessageStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async create(row: PendingMessageRow): Promise<void> {
    await this.#context.writer.add(row.userId, insertPending(this.#context.build, row));
  }

  async listByConversation(conversationId: string): Promise<PendingMessageRow[]> {
    return (await this.#context.reader.all<Stored>(pendingMessageQueries.of, conversationId)).map(fromStored);
  }

  async listConversations(scope: SandboxScope = "all"): Promise<string[]> {
    const { reader, dialect } = this.#context;
    const all = "SELECT DISTINCT conversation_id AS id FROM pending_messages";
    const rows =
      scope === "all"
        ? await reader.all<{ id: string }>(all)
        : await reader.all<{ id: string }>(
            scopeQueries(dialect.queries).pendingMessages,
            JSON.stringify(scope),
          );
    return rows.map(({ id }) => id);
  }

  async removeByConversation(conversationId: string): Promise<void> {
    const remove = this.#context.build
      .deleteFrom("pending_messages")
      .where("conversation_id", "=", conversationId);
    await this.#context.writer.release(compile(remove));
  }
}

export function insertPending(build: SqlContext["build"], row: PendingMessageRow): Statement {
  const insert = build.insertInto("pending_messages").values({
    id: row.id,
    user_id: row.userId,
    conversation_id: row.conversationId,
    content: JSON.stringify(row.content),
    created_at: row.createdAt,
  });
  return compile(insert);
}

function fromStored(stored: Stored): PendingMessageRow {
  return {
    id: stored.id,
    userId: stored.user_id,
    conversationId: stored.conversation_id,
    content: JSON.parse(stored.content),
    createdAt: stored.created_at,
  };
}
