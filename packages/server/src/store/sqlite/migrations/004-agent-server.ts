/**
 * Adds branches, stats and client-defined agents, and drops an index: times rise with the listed
 * index.
 *
 * `conversations.head` is the parent of the next event after a navigation (empty: none); null: the
 * newest event. `navigations` has a row for each position where HEAD was moved, in listed indexes:
 * the event after `after` has the parent `target` (0: none); `micros` is the time of the first move
 * there. `conversations.stats` has the metrics by usage id. `conversation_agents` has encrypted
 * documents.
 */
export const agentServer = `
DROP INDEX events_by_time;
ALTER TABLE conversations ADD COLUMN head TEXT;
ALTER TABLE conversations ADD COLUMN stats TEXT;
CREATE INDEX conversations_with_goal ON conversations (config ->> '$.goal.status', number) WHERE config ->> '$.goal.status' IS NOT NULL;
CREATE TABLE navigations (
  conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
  after INTEGER NOT NULL,
  target INTEGER NOT NULL,
  micros INTEGER NOT NULL,
  PRIMARY KEY (conversation, after)
) WITHOUT ROWID, STRICT;
CREATE TABLE conversation_agents (
  conversation_id TEXT PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
  document BLOB NOT NULL
) WITHOUT ROWID, STRICT;
`;
