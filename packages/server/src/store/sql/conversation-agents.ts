import { PlatformError } from "@sandpiper/core/errors";
import { LRUCache } from "lru-cache";
import type { AgentDocument, ConversationAgentStore } from "../conversation-parts.ts";
import type { Vault } from "../vault.ts";
import { ConstraintViolation } from "./constraint-violation.ts";
import type { SqlContext } from "./context.ts";
import { compile } from "./tables.ts";

export const agentQueries = {
  get: "SELECT document FROM conversation_agents WHERE conversation_id = ?",
} as const;

/** Client-defined agents, encrypted; a row is removed with its conversation. */
export class SqlConversationAgents implements ConversationAgentStore {
  readonly #context: SqlContext;
  /** Decrypted documents by the first bytes of their unique ciphertext. */
  readonly #opened = new LRUCache<string, AgentDocument>({ max: 1000, maxSize: 8 * 2 ** 20 });

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async get(conversationId: string): Promise<AgentDocument | undefined> {
    const row = await this.#context.reader.get<{ document: Uint8Array }>(agentQueries.get, conversationId);
    if (!row) return undefined;
    const key = Buffer.from(row.document.buffer, row.document.byteOffset, 32).toString("latin1");
    const known = this.#opened.get(key);
    if (known) return known;
    const text = this.#context.vault.decrypt(row.document, place(conversationId));
    const document = JSON.parse(text) as AgentDocument;
    this.#opened.set(key, document, { size: text.length });
    return document;
  }

  async put(conversationId: string, document: AgentDocument): Promise<void> {
    const sealed = encryptAgent(this.#context.vault, conversationId, document);
    const insert = this.#context.build
      .insertInto("conversation_agents")
      .values({ conversation_id: conversationId, document: sealed })
      .onConflict((conflict) => conflict.column("conversation_id").doUpdateSet({ document: sealed }));
    try {
      await this.#context.writer.run(compile(insert));
    } catch (error) {
      // The only constraint of the table is its foreign key.
      if (error instanceof ConstraintViolation) throw new PlatformError("StoredConversationMissing");
      throw error;
    }
  }
}

export function encryptAgent(vault: Vault, conversationId: string, document: AgentDocument): Uint8Array {
  return vault.encrypt(JSON.stringify(document), place(conversationId));
}

function place(conversationId: string): string {
  return `conversation-agents:${conversationId}`;
}
