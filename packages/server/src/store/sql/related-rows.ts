/** Condition that no start of the conversation `?1` is open. */
export const isNotStarting = `NOT EXISTS (SELECT 1 FROM start_tasks
  WHERE conversation_id = ?1 AND status NOT IN ('READY', 'ERROR'))`;

const isAbsent = "NOT EXISTS (SELECT 1 FROM conversations WHERE id = ?1)";

const removeFrom = (table: string) =>
  `DELETE FROM ${table} WHERE conversation_id = ?1 AND ${isAbsent} AND ${isNotStarting}`;

/** Like `removeRelated`, for the secrets and callbacks only. */
export const removeParts = ["conversation_secrets", "callbacks"].map(removeFrom);

/**
 * Statements that remove the rows of a conversation that may exist before it, when it is gone and
 * no start makes another one with its id.
 */
export const removeRelated = [...removeParts, removeFrom("pending_messages")];
