/** Adds the tables of shared blobs and of the sandboxes and snapshots that need them. */
export const blobs = `
CREATE TABLE blobs (
  digest TEXT PRIMARY KEY,
  size INTEGER NOT NULL,
  -- Null while it is referenced.
  unused_since INTEGER,
  -- Set by the server that is removing it.
  claimed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_unused ON blobs (unused_since) WHERE unused_since IS NOT NULL;

CREATE TABLE blob_references (
  holder TEXT PRIMARY KEY,
  digest TEXT NOT NULL REFERENCES blobs (digest),
  user_id TEXT NOT NULL,
  kept_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_references_by_digest ON blob_references (digest);
CREATE INDEX blob_references_by_user ON blob_references (user_id, digest);

CREATE TRIGGER blobs_released AFTER DELETE ON blob_references
  WHEN NOT EXISTS (SELECT 1 FROM blob_references WHERE digest = OLD.digest) BEGIN
  UPDATE blobs SET unused_since = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE digest = OLD.digest;
END;
CREATE TRIGGER blobs_replaced AFTER UPDATE OF digest ON blob_references
  WHEN NOT EXISTS (SELECT 1 FROM blob_references WHERE digest = OLD.digest) BEGIN
  UPDATE blobs SET unused_since = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE digest = OLD.digest;
END;
CREATE TRIGGER blobs_of_sandbox AFTER DELETE ON sandboxes BEGIN
  DELETE FROM blob_references WHERE holder = OLD.id;
END;
CREATE TRIGGER blobs_of_snapshot AFTER DELETE ON snapshots BEGIN
  DELETE FROM blob_references WHERE holder = OLD.id;
END;
`;
