/**
 * Allows one open start for each conversation id. Of several old ones, the oldest goes on. The lock
 * makes the starts of servers that work during the migration wait until the index exists.
 */
export const openStarts = `
LOCK TABLE start_tasks IN SHARE ROW EXCLUSIVE MODE;
UPDATE start_tasks SET status = 'ERROR', detail = 'Another start has the same conversation id.'
  WHERE status NOT IN ('READY', 'ERROR') AND EXISTS (SELECT 1 FROM start_tasks older
    WHERE older.conversation_id = start_tasks.conversation_id AND older.number < start_tasks.number
      AND older.status NOT IN ('READY', 'ERROR'));
CREATE UNIQUE INDEX start_tasks_open_once ON start_tasks (conversation_id) WHERE status NOT IN ('READY', 'ERROR');
`;
