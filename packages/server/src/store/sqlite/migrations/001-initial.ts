/**
 * Conversations, their log, start tasks, sandboxes, settings and API keys.
 *
 * `conversations.number` is the short key of a conversation inside the database. `events.key` is
 * number * 2^24 + seq (see event-key.ts), so that the events of a conversation lie side by side in
 * the table and seq needs no index of its own. `events.listed_index` counts the listed events of a
 * conversation (1, 2, …, null for control records): a page offset is a key.
 */
export const initial = `
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE conversations (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  sandbox_id TEXT NOT NULL,
  config TEXT NOT NULL,
  title TEXT,
  parent_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  execution_status TEXT NOT NULL DEFAULT 'idle',
  metrics TEXT,
  last_seq INTEGER NOT NULL DEFAULT 0,
  last_listed INTEGER NOT NULL DEFAULT 0,
  last_micros INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX conversations_by_user ON conversations (user_id, created_at);
CREATE INDEX conversations_by_sandbox ON conversations (sandbox_id, created_at);
CREATE INDEX conversations_by_parent ON conversations (parent_id, created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX conversations_running ON conversations (number) WHERE execution_status = 'running';

CREATE TABLE events (
  key INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
  listed_index INTEGER,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  json TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_id ON events (conversation, id);
CREATE UNIQUE INDEX events_listed ON events (conversation, listed_index) WHERE listed_index IS NOT NULL;
CREATE INDEX events_by_kind ON events (conversation, kind, listed_index) WHERE listed_index IS NOT NULL;
CREATE INDEX events_by_time ON events (conversation, timestamp, listed_index) WHERE listed_index IS NOT NULL;

CREATE TABLE start_tasks (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  status TEXT NOT NULL,
  detail TEXT,
  conversation_id TEXT NOT NULL,
  sandbox_id TEXT,
  request TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX start_tasks_by_creation ON start_tasks (user_id, created_at);
CREATE INDEX start_tasks_by_update ON start_tasks (user_id, updated_at);
CREATE INDEX start_tasks_by_conversation ON start_tasks (conversation_id);
CREATE INDEX start_tasks_open ON start_tasks (number) WHERE status NOT IN ('READY', 'ERROR');

CREATE TABLE sandboxes (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  spec_id TEXT NOT NULL,
  status TEXT NOT NULL,
  status_detail TEXT,
  incarnation TEXT NOT NULL,
  session_key BLOB NOT NULL,
  session_key_hash BLOB NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sandboxes_by_user ON sandboxes (user_id, created_at);

CREATE TABLE settings (user_id TEXT PRIMARY KEY, document BLOB NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL,
  name TEXT NOT NULL,
  hash BLOB NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  UNIQUE (user_id, name)
) WITHOUT ROWID, STRICT;
`;
