import { PlatformError } from "@sandpiper/core/errors";
import { LRUCache } from "lru-cache";
import type { AgentDocument, ConversationAgentStore } from "../conversation-parts.ts";
import type { Vault } from "../vault.ts";
import { compareAndSet } from "./compare-and-set.ts";
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
    const sealed = await this.#read(conversationId);
    return sealed && this.#open(conversationId, sealed);
  }

  #open(conversationId: string, sealed: Uint8Array): AgentDocument {
    const key = Buffer.from(sealed.buffer, sealed.byteOffset, 32).toString("latin1");
    const known = this.#opened.get(key);
    if (known) return known;
    const text = this.#context.vault.decrypt(sealed, place(conversationId));
    const document = JSON.parse(text) as AgentDocument;
    this.#opened.set(key, document, { size: text.length });
    return document;
  }

  async change(
    conversationId: string,
    change: (document: AgentDocument | undefined) => AgentDocument,
  ): Promise<void> {
    await compareAndSet(async () => {
      const before = await this.#read(conversationId);
      const document = change(before && this.#open(conversationId, before));
      const sealed = encryptAgent(this.#context.vault, conversationId, document);
      return (await this.#replace(conversationId, before, sealed)) || undefined;
    });
  }

  async #read(conversationId: string): Promise<Uint8Array | undefined> {
    const row = await this.#context.reader.get<{ document: Uint8Array }>(agentQueries.get, conversationId);
    return row?.document;
  }

  /**
   * Stores a document only if the stored one still is the one that was read: two sealings never
   * give the same bytes.
   */
  async #replace(
    conversationId: string,
    before: Uint8Array | undefined,
    document: Uint8Array,
  ): Promise<boolean> {
    const { build, writer } = this.#context;
    const statement = before
      ? build
          .updateTable("conversation_agents")
          .set({ document })
          .where("conversation_id", "=", conversationId)
          .where("document", "=", before)
      : build
          .insertInto("conversation_agents")
          .values({ conversation_id: conversationId, document })
          .onConflict((conflict) => conflict.column("conversation_id").doNothing());
    try {
      return (await writer.run(compile(statement))) > 0;
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
