/**
 * Adds what projects do by themselves (`behaviours`, by sandbox or snapshot) and what users have
 * accepted. Triggers copy the rows with the files: to a snapshot, and to a sandbox that begins with
 * one.
 */
export const behaviours = `
CREATE TABLE behaviours (
  number INTEGER PRIMARY KEY,
  holder TEXT NOT NULL,
  user_id TEXT NOT NULL,
  working_dir TEXT NOT NULL,
  digest TEXT NOT NULL,
  origin TEXT NOT NULL,
  parts TEXT NOT NULL,
  UNIQUE (holder, digest)
) STRICT;
CREATE INDEX behaviours_by_user ON behaviours (user_id, number);

CREATE TABLE accepted_behaviours (
  number INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  origin TEXT NOT NULL,
  parts TEXT NOT NULL,
  accepted_at INTEGER NOT NULL,
  UNIQUE (user_id, digest)
) STRICT;
CREATE INDEX accepted_behaviours_by_user ON accepted_behaviours (user_id, number);

CREATE TRIGGER behaviours_to_snapshot AFTER INSERT ON snapshots BEGIN
  INSERT OR IGNORE INTO behaviours (holder, user_id, working_dir, digest, origin, parts)
    SELECT NEW.id, user_id, working_dir, digest, origin, parts FROM behaviours
      WHERE holder = NEW.sandbox_id ORDER BY number;
END;
CREATE TRIGGER behaviours_to_sandbox AFTER INSERT ON sandboxes WHEN NEW.snapshot_id IS NOT NULL BEGIN
  INSERT OR IGNORE INTO behaviours (holder, user_id, working_dir, digest, origin, parts)
    SELECT NEW.id, user_id, working_dir, digest, origin, parts FROM behaviours
      WHERE holder = NEW.snapshot_id ORDER BY number;
END;
CREATE TRIGGER behaviours_of_snapshot AFTER DELETE ON snapshots BEGIN
  DELETE FROM behaviours WHERE holder = OLD.id;
END;
CREATE TRIGGER behaviours_of_sandbox AFTER DELETE ON sandboxes BEGIN
  DELETE FROM behaviours WHERE holder = OLD.id;
END;
`;
