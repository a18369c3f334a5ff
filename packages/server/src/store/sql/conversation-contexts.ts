import { PlatformError } from "@sandpiper/core/errors";
import type { ContextStore } from "../conversation-parts.ts";
import { compareAndSet } from "./compare-and-set.ts";
import { ConstraintViolation } from "./constraint-violation.ts";
import type { SqlContext } from "./context.ts";
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
    const row = await this.#read(conversationId);
    return row && { document: JSON.parse(row.document), activated: JSON.parse(row.activated) };
  }

  async change<T>(conversationId: string, change: (document: unknown) => T, known?: unknown): Promise<T> {
    let before = known === undefined ? undefined : JSON.stringify(known);
    return compareAndSet(async () => {
      before ??= (await this.#read(conversationId))?.document;
      const document = change(before === undefined ? undefined : (known ?? parseDocument(before)));
      const stored = await this.#replace(conversationId, "document", before, JSON.stringify(document));
      // The next attempt reads what another process has stored.
      [before, known] = [undefined, undefined];
      return stored ? { document } : undefined;
    }).then(({ document }) => document);
  }

  async activate(
    conversationId: string,
    change: (names: readonly string[]) => readonly string[],
  ): Promise<void> {
    await compareAndSet(async () => {
      const before = (await this.#read(conversationId))?.activated;
      const names = change(before === undefined ? [] : JSON.parse(before));
      return (await this.#replace(conversationId, "activated", before, JSON.stringify(names))) || undefined;
    });
  }

  async #read(conversationId: string): Promise<StoredContext | undefined> {
    return this.#context.reader.get<StoredContext>(contextQueries.get, conversationId);
  }

  /** Stores the text of a column only if its text still is the one that was read. */
  async #replace(
    conversationId: string,
    column: keyof StoredContext,
    before: string | undefined,
    after: string,
  ): Promise<boolean> {
    const { build, writer } = this.#context;
    const statement =
      before === undefined
        ? build
            .insertInto("conversation_contexts")
            .values({ ...emptyContext, conversation_id: conversationId, [column]: after })
            .onConflict((row) => row.column("conversation_id").doNothing())
        : build
            .updateTable("conversation_contexts")
            .set({ [column]: after })
            .where("conversation_id", "=", conversationId)
            .where(column, "=", before);
    try {
      return (await writer.run(compile(statement))) > 0;
    } catch (error) {
      // The only constraint is the foreign key.
      if (error instanceof ConstraintViolation) throw new PlatformError("StoredConversationMissing");
      throw error;
    }
  }
}

interface StoredContext {
  document: string;
  activated: string;
}

const emptyContext: StoredContext = { document: "null", activated: "[]" };

/** The row of a conversation without a document has `null`. */
function parseDocument(text: string): unknown {
  return JSON.parse(text) ?? undefined;
}
