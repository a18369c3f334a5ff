import type { DatabaseSync } from "node:sqlite";
import { isDiskFullCode } from "./protocol.ts";

/** Tables whose rows may be written before their conversation. */
const early = ["conversation_secrets", "callbacks", "pending_messages"];

/** Removes unfinished copies and rows of conversations that neither exist nor are being started. */
export function removeOrphans(database: DatabaseSync): void {
  try {
    database.exec("DELETE FROM conversations WHERE user_id = ''");
    for (const table of early)
      database.exec(`DELETE FROM ${table} WHERE NOT EXISTS (SELECT 1 FROM conversations c WHERE c.id = ${table}.conversation_id)
        AND NOT EXISTS (SELECT 1 FROM start_tasks t WHERE t.conversation_id = ${table}.conversation_id
          AND t.status NOT IN ('READY', 'ERROR'))`);
  } catch (error) {
    if (!isDiskFullCode((error as { errcode?: number }).errcode ?? 0)) throw error;
  }
}
