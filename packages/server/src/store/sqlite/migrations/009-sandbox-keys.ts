/**
 * Removes the hash of sandboxes' keys, by which nothing is looked up. SQLite cannot drop a unique
 * column, so the rows move to a new table; the triggers of the old one are made again.
 */
export const sandboxKeys = `
CREATE TABLE new_sandboxes (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  user_id TEXT NOT NULL,
  spec_id TEXT NOT NULL,
  status TEXT NOT NULL,
  status_detail TEXT,
  incarnation TEXT NOT NULL,
  session_key BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  spec TEXT,
  prepared INTEGER NOT NULL DEFAULT 0,
  snapshot_id TEXT,
  last_used_at INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO new_sandboxes
  SELECT number, id, user_id, spec_id, status, status_detail, incarnation, session_key, created_at, spec, prepared,
    snapshot_id, last_used_at FROM sandboxes;
DROP TABLE sandboxes;
ALTER TABLE new_sandboxes RENAME TO sandboxes;
CREATE INDEX sandboxes_by_user ON sandboxes (user_id, created_at);

CREATE TRIGGER behaviours_to_sandbox AFTER INSERT ON sandboxes WHEN NEW.snapshot_id IS NOT NULL BEGIN
  INSERT OR IGNORE INTO behaviours (holder, user_id, working_dir, digest, origin, parts)
    SELECT NEW.id, user_id, working_dir, digest, origin, parts FROM behaviours
      WHERE holder = NEW.snapshot_id ORDER BY number;
END;
CREATE TRIGGER behaviours_of_sandbox AFTER DELETE ON sandboxes BEGIN
  DELETE FROM behaviours WHERE holder = OLD.id;
END;
`;
