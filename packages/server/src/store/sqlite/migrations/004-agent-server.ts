/**
 * What the agent-server surface needs, and one index less for each append to keep: times rise with the listed index.
 *
 * `conversations.head` is the id of the event to which the next one is appended, once a conversation was navigated (empty: none of them); null: the
 * newest one. `navigations` has a row for each place in a log where it was moved, in indexes of listed events: the events after `after` follow on the
 * event `target` (0: on none). `micros` is the time of the first move there. `conversations.stats` are the metrics by usage id that `metrics` adds up, as the last record of them has them. `conversation_agents` holds a sealed document: the agent that a client gave with a conversation.
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
