import type { DialectQueries } from "./dialect.ts";

/**
 * Statements about the conversations in some sandboxes, or about some conversations, whose ids are
 * one JSON array. The rows are in no order.
 */
export function scopeQueries({ isListed, hasActiveGoal }: DialectQueries) {
  const inSandboxes = `sandbox_id ${isListed}`;
  return {
    running: `SELECT * FROM conversations WHERE ${inSandboxes} AND execution_status = 'running'`,
    withGoal: `SELECT * FROM conversations WHERE ${inSandboxes} AND ${hasActiveGoal}`,
    startTasks: `SELECT * FROM start_tasks WHERE ${inSandboxes} AND status NOT IN ('READY', 'ERROR')`,
    pendingMessages: `SELECT id FROM conversations c WHERE ${inSandboxes}
      AND EXISTS (SELECT 1 FROM pending_messages p WHERE p.conversation_id = c.id)`,
    pendingCallbacks: `SELECT c.id, c.conversation_id FROM conversations v JOIN callbacks c ON c.conversation_id = v.id
      WHERE v.${inSandboxes} AND c.status = 'ACTIVE' AND c.next_seq <= v.last_seq`,
    uncleanEnds: `SELECT id, unclean_ends FROM conversations WHERE id ${isListed}`,
  } as const;
}
