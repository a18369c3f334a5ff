import type { AgentDocument } from "../conversation-parts.ts";
import type { NewConversation } from "../conversation-store.ts";
import { insertCallbacks } from "./callbacks.ts";
import type { SqlContext } from "./context.ts";
import { encryptAgent } from "./conversation-agents.ts";
import { sealSecrets } from "./conversation-secrets.ts";
import { insertPending } from "./pending-messages.ts";
import { removeParts } from "./related-rows.ts";
import type { Statement } from "./statement.ts";
import { compile } from "./tables.ts";

/**
 * The statements that store a new conversation with its related rows. With the name of a hidden
 * log, the conversation gets this log.
 */
export function creationStatements(
  context: SqlContext,
  row: NewConversation,
  agent: AgentDocument | undefined,
  log: string | undefined,
): Statement[] {
  const { build, dialect, vault } = context;
  const { id, userId, createdAt, context: project, secrets, callbacks = [], message } = row;
  const values = {
    ...dialect.configColumns(row.config),
    id,
    user_id: userId,
    sandbox_id: row.sandboxId,
    config: JSON.stringify(row.config),
    title: row.title,
    parent_id: row.parentId,
    created_at: createdAt,
    updated_at: createdAt,
  };
  const statements = [
    // A request to the conversation that ended with its server may have left them.
    ...(secrets || callbacks.length > 0 ? removeParts.map((sql) => ({ sql, parameters: [id] })) : []),
    log === undefined
      ? compile(build.insertInto("conversations").values(values))
      : compile(build.updateTable("conversations").set(values).where("id", "=", log)),
  ];
  if (agent) {
    const document = encryptAgent(vault, id, agent);
    statements.push(
      compile(build.insertInto("conversation_agents").values({ conversation_id: id, document })),
    );
  }
  if (project) {
    const document = JSON.stringify(project.document);
    const activated = JSON.stringify(project.activated);
    const stored = { conversation_id: id, document, activated };
    statements.push(compile(build.insertInto("conversation_contexts").values(stored)));
  }
  if (secrets)
    statements.push(compile(build.insertInto("conversation_secrets").values(sealSecrets(vault, secrets))));
  if (callbacks.length > 0) statements.push(insertCallbacks(context, callbacks));
  if (message) statements.push(insertPending(build, { ...message, conversationId: id, userId, createdAt }));
  return statements;
}
