import { PlatformError } from "@sandpiper/core/errors";
import type { ContextStore } from "../conversation-parts.ts";
import { ConstraintViolation } from "./constraint-violation.ts";
import type { SqlContext } from "./context.ts";
import type { Statement } from "./statement.ts";
import { compile } from "./tables.ts";

export const contextQueries = {
  get: "SELECT document, activated FROM conversation_contexts WHERE conversation_id = ?",
} as const;

/** Project contexts as JSON; a row is removed with its conversation. */
export class SqlConversationContexts implements ContextStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async get(conversationId: string): Promise<{ document: unknown; activated: string[] } | undefined> {
    const row = await this.#context.reader.get<{ document: string; activated: string }>(
      contextQueries.get,
      conversationId,
    );
    return row && { document: JSON.parse(row.document), activated: JSON.parse(row.activated) };
  }

  async put(conversationId: string, document: unknown): Promise<void> {
    const values = { conversation_id: conversationId, document: JSON.stringify(document), activated: "[]" };
    const insert = this.#context.build.insertInto("conversation_contexts").values(values);
    const write = insert.onConflict((row) =>
      row.column("conversation_id").doUpdateSet({ document: values.document }),
    );
    await this.#write(compile(write));
  }

  async activate(conversationId: string, names: readonly string[]): Promise<void> {
    const values = { conversation_id: conversationId, document: "null", activated: JSON.stringify(names) };
    const insert = this.#context.build.insertInto("conversation_contexts").values(values);
    const write = insert.onConflict((row) =>
      row.column("conversation_id").doUpdateSet({ activated: values.activated }),
    );
    await this.#write(compile(write));
  }

  async #write(statement: Statement): Promise<void> {
    try {
      await this.#context.writer.run(statement);
    } catch (error) {
      // The only constraint is the foreign key.
      if (error instanceof ConstraintViolation) throw new PlatformError("StoredConversationMissing");
      throw error;
    }
  }
}
