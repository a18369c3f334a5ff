import { boundedPage } from "@sandpiper/core/paging";
import type { ModelCall } from "@sandpiper/models/recording/model-call";
import type { ModelCallStore, StoredModelCall } from "../model-calls.ts";
import type { StoreContext } from "./context.ts";

/** A test checks that the plans are index searches. */
export const modelCallQueries = {
  of: `SELECT m.number, m.seq, m.json FROM model_calls m JOIN conversations c ON c.number = m.conversation
    WHERE c.id = ? AND m.number > ? ORDER BY m.number LIMIT ?`,
  lastTools: `SELECT m.json ->> '$.digests.tools' AS tools FROM model_calls m JOIN conversations c ON c.number = m.conversation
    WHERE c.id = ? AND m.json ->> '$.digests' IS NOT NULL ORDER BY m.number DESC LIMIT 1`,
} as const;

/** Reads model calls; the writer thread stores them together with their events. */
export class SqliteModelCalls implements ModelCallStore {
  readonly #context: Pick<StoreContext, "reader">;

  constructor(context: Pick<StoreContext, "reader">) {
    this.#context = context;
  }

  async listByConversation(
    conversationId: string,
    afterNumber: number,
    limit: number,
  ): Promise<StoredModelCall[]> {
    const rows = this.#context.reader.iterate<{ number: number; seq: number; json: string }>(
      modelCallQueries.of,
      conversationId,
      afterNumber,
      limit,
    );
    const { items } = boundedPage(rows, ({ json }) => json.length, { limit });
    return items.map(({ number, seq, json }) => ({
      ...(JSON.parse(json) as ModelCall),
      number,
      storedSeq: seq,
    }));
  }

  async lastTools(conversationId: string): Promise<string | undefined> {
    return this.#context.reader.get<{ tools: string }>(modelCallQueries.lastTools, conversationId)?.tools;
  }
}
