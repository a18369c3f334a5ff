/**
 * Adds snapshots, and to sandboxes their spec (JSON; null in old rows: the configured one), whether
 * the root of the spec is ready, their first snapshot, and their last use. Old rows count as used
 * now, so that none is deleted as unused.
 */
export const sandboxLifecycle = `
ALTER TABLE sandboxes ADD COLUMN spec TEXT;
ALTER TABLE sandboxes ADD COLUMN prepared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN snapshot_id TEXT;
ALTER TABLE sandboxes ADD COLUMN last_used_at INTEGER NOT NULL DEFAULT 0;
UPDATE sandboxes SET last_used_at = unixepoch() * 1000;

CREATE TABLE snapshots (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  sandbox_id TEXT NOT NULL,
  spec TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX snapshots_by_user ON snapshots (user_id, created_at);
`;
