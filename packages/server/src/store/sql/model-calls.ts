import type { ModelCall } from "@sandpiper/models/recording/model-call";
import type { ModelCallStore, StoredModelCall } from "../model-calls.ts";
import type { SqlContext } from "./context.ts";

/** Reads model calls; appends store them together with their events. */
export class SqlModelCalls implements ModelCallStore {
  readonly #context: Pick<SqlContext, "reader" | "dialect">;

  constructor(context: Pick<SqlContext, "reader" | "dialect">) {
    this.#context = context;
  }

  async listByConversation(
    conversationId: string,
    afterNumber: number,
    limit: number,
  ): Promise<StoredModelCall[]> {
    const { reader, dialect } = this.#context;
    const { items } = await reader.page<"json", { number: number; seq: number; json: string }>(
      { sql: dialect.queries.modelCalls, parameters: [conversationId, afterNumber, limit] },
      "json",
      { limit },
    );
    return items.map(({ number, seq, json }) => ({
      ...(JSON.parse(json) as ModelCall),
      number,
      storedSeq: seq,
    }));
  }

  async lastTools(conversationId: string): Promise<string | undefined> {
    const { reader, dialect } = this.#context;
    return (await reader.get<{ tools: string }>(dialect.queries.lastTools, conversationId))?.tools;
  }
}
