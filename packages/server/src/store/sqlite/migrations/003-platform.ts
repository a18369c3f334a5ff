/**
 * Adds keys and secrets of several users, pending messages, callbacks, spending and project
 * contexts.
 *
 * A row of `user_secrets` and `conversation_secrets` has one encrypted document.
 * `pending_messages.conversation_id` is the future id of the start task's conversation.
 * `callbacks.next_seq` is the sequence number of the first undelivered record. `spending` has the
 * cost of model calls by user and day (UTC, `2026-01-31`), USD.
 */
export const platform = `
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;
ALTER TABLE api_keys ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0;
CREATE TABLE logins (
  hash BLOB PRIMARY KEY,
  key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX logins_by_key ON logins (key_id, created_at);

CREATE TABLE user_secrets (user_id TEXT PRIMARY KEY, document BLOB NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE conversation_secrets (
  number INTEGER PRIMARY KEY,
  conversation_id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  sandbox_id TEXT NOT NULL,
  document BLOB NOT NULL
) STRICT;
CREATE INDEX conversation_secrets_by_sandbox ON conversation_secrets (sandbox_id, number);

CREATE TABLE conversation_contexts (
  conversation_id TEXT PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
  document TEXT NOT NULL,
  activated TEXT NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE pending_messages (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  content TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX conversations_by_repository ON conversations (user_id, config ->> 'selectedRepository', created_at)
  WHERE config ->> 'selectedRepository' IS NOT NULL;
CREATE INDEX pending_messages_by_conversation ON pending_messages (conversation_id, number);

CREATE TABLE callbacks (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  processor TEXT NOT NULL,
  secret BLOB,
  status TEXT NOT NULL,
  detail TEXT,
  next_seq INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  failing_since INTEGER,
  next_attempt_at INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX callbacks_by_conversation ON callbacks (conversation_id, number);
CREATE INDEX callbacks_active ON callbacks (number) WHERE status = 'ACTIVE';

CREATE TABLE spending (
  user_id TEXT NOT NULL,
  day TEXT NOT NULL,
  usd REAL NOT NULL,
  PRIMARY KEY (user_id, day)
) WITHOUT ROWID, STRICT;
`;
