import type {
  ConversationSecretStore,
  ConversationSecretsRow,
  LookupSecretSource,
} from "../conversation-parts.ts";
import type { Vault } from "../vault.ts";
import { compareAndSet } from "./compare-and-set.ts";
import type { SqlContext } from "./context.ts";
import { type ConversationSecretsRecord, compile } from "./tables.ts";

/** A secret in the encrypted document: its value, or an object with a description or source. */
type Stored = string | { value: string; description?: string; source?: LookupSecretSource };

/** Key of the scope in the document: no secret can have this name. */
const scopeKey = "*scope";

/**
 * The encrypted secrets of conversations. Their table has no foreign key, because a start
 * stores them before its conversation.
 */
export class SqlConversationSecrets implements ConversationSecretStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  change(
    conversationId: string,
    change: (row: ConversationSecretsRow | undefined) => ConversationSecretsRow | undefined,
  ): Promise<void> {
    return compareAndSet(async () => {
      const before = await this.#find(conversationId);
      const row = change(before && this.#row(before));
      return row ? this.#replace(before?.document, row) : true;
    }).then(() => {});
  }

  /**
   * Stores a row only if the stored document still is the one that was read: two sealings of a
   * document never give the same bytes.
   */
  async #replace(before: Uint8Array | undefined, row: ConversationSecretsRow): Promise<true | undefined> {
    const { build, vault, writer } = this.#context;
    const values = sealSecrets(vault, row);
    const statement = before
      ? build
          .updateTable("conversation_secrets")
          .set(values)
          .where("conversation_id", "=", row.conversationId)
          .where("document", "=", before)
      : build
          .insertInto("conversation_secrets")
          .values(values)
          .onConflict((conflict) => conflict.column("conversation_id").doNothing());
    return (await writer.run(compile(statement))) > 0 || undefined;
  }

  async get(conversationId: string): Promise<ConversationSecretsRow | undefined> {
    const stored = await this.#find(conversationId);
    return stored && this.#row(stored);
  }

  async #find(conversationId: string): Promise<ConversationSecretsRecord | undefined> {
    return this.#context.reader.get(
      "SELECT * FROM conversation_secrets WHERE conversation_id = ?",
      conversationId,
    );
  }

  async listBySandbox(sandboxId: string): Promise<ConversationSecretsRow[]> {
    return (
      await this.#context.reader.all<ConversationSecretsRecord>(
        "SELECT * FROM conversation_secrets WHERE sandbox_id = ? ORDER BY number",
        sandboxId,
      )
    ).map((stored) => this.#row(stored));
  }

  async remove(conversationId: string): Promise<void> {
    const { build, writer } = this.#context;
    await writer.release(
      compile(build.deleteFrom("conversation_secrets").where("conversation_id", "=", conversationId)),
    );
  }

  #row({
    conversation_id,
    user_id,
    sandbox_id,
    document,
  }: ConversationSecretsRecord): ConversationSecretsRow {
    const { [scopeKey]: scope, ...stored } = JSON.parse(
      this.#context.vault.decrypt(document, place(conversation_id)),
    ) as Record<string, Stored> & { [scopeKey]?: string[] };
    const values: Record<string, string> = {};
    const descriptions: Record<string, string> = {};
    const sources: Record<string, LookupSecretSource> = {};
    for (const [name, one] of Object.entries(stored)) {
      values[name] = typeof one === "string" ? one : one.value;
      if (typeof one !== "string" && one.description !== undefined) descriptions[name] = one.description;
      if (typeof one !== "string" && one.source) sources[name] = one.source;
    }
    return {
      conversationId: conversation_id,
      userId: user_id,
      sandboxId: sandbox_id,
      values,
      descriptions,
      sources,
      ...(scope && { scope }),
    };
  }
}

/** The record of a row, with its sealed document. */
export function sealSecrets(
  vault: Vault,
  row: ConversationSecretsRow,
): Omit<ConversationSecretsRecord, "number"> {
  const { conversationId, userId, sandboxId } = row;
  const document = vault.encrypt(JSON.stringify(toDocument(row)), place(conversationId));
  return { conversation_id: conversationId, user_id: userId, sandbox_id: sandboxId, document };
}

/** The text of a row's document, before it is sealed. */
function toDocument({ values, descriptions = {}, sources = {}, scope }: ConversationSecretsRow): object {
  const entries = Object.entries(values).map(([name, value]) => {
    const description = Object.hasOwn(descriptions, name) ? descriptions[name] : undefined;
    const source = Object.hasOwn(sources, name) ? sources[name] : undefined;
    return [
      name,
      description === undefined && source === undefined ? value : { value, description, source },
    ] as const;
  });
  return { ...Object.fromEntries(entries), ...(scope && { [scopeKey]: scope }) };
}

function place(conversationId: string): string {
  return `conversation-secrets:${conversationId}`;
}
