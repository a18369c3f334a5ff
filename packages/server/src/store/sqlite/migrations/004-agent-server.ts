/**
 * What the agent-server surface needs.
 *
 * `conversations.head` is the id of the event to which the next one is appended, once a conversation was navigated (empty: none of them); null: the
 * newest one. `conversation_agents` holds a sealed document: the agent that a client gave with a conversation.
 */
export const agentServer = `
ALTER TABLE conversations ADD COLUMN head TEXT;
CREATE TABLE conversation_agents (
  conversation_id TEXT PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
  document BLOB NOT NULL
) WITHOUT ROWID, STRICT;
`;
