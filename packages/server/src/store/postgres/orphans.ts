import type { Connection } from "./database.ts";

/** Tables whose rows may be written before their conversation. */
const early = ["conversation_secrets", "callbacks", "pending_messages"];

/** Age after which an unfinished copy belongs to no living server, ms. */
const copyMs = 86_400_000;

/**
 * Removes rows of conversations that neither exist nor are being started, and unfinished copies.
 * While other servers run, it removes only old copies, because another server may be making a
 * younger one.
 */
export async function removeOrphans(connection: Connection): Promise<void> {
  const alone = "NOT EXISTS (SELECT 1 FROM nodes WHERE expires_at > clock_timestamp())";
  const old = `created_at < extract(epoch FROM clock_timestamp()) * 1000 - ${copyMs}`;
  await connection.query(`DELETE FROM conversations WHERE user_id = '' AND (${alone} OR ${old})`);
  for (const table of early)
    await connection.query(`DELETE FROM ${table} WHERE ${alone}
      AND NOT EXISTS (SELECT 1 FROM conversations c WHERE c.id = ${table}.conversation_id)
      AND NOT EXISTS (SELECT 1 FROM start_tasks t WHERE t.conversation_id = ${table}.conversation_id
        AND t.status NOT IN ('READY', 'ERROR'))`);
}
