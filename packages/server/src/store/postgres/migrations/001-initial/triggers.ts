/**
 * Triggers that keep what no statement may forget. They count what users store in the transaction
 * of each write: a conversation's events, model calls, project context and agent in
 * `conversations.stored_bytes`, and the sum of a user's conversations, with their configuration and
 * pending messages, in `stored_bytes`. They copy what projects do by themselves along with the
 * files: to a snapshot, and to a sandbox that begins with one. They give conversations the owner
 * of their sandbox. They remove the log of a conversation with it: foreign keys would check each
 * event that is appended.
 */
export const triggers = `
CREATE FUNCTION count_bytes(the_user text, more bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF more <> 0 THEN
    INSERT INTO stored_bytes (user_id, part, bytes) VALUES (the_user, pg_backend_pid() % 16, more)
      ON CONFLICT (user_id, part) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;
  END IF;
END $$;

CREATE FUNCTION conversation_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM count_bytes(NEW.user_id, NEW.stored_bytes + octet_length(NEW.config));
  ELSIF TG_OP = 'DELETE' THEN
    PERFORM count_bytes(OLD.user_id, -(OLD.stored_bytes + octet_length(OLD.config)));
    DELETE FROM events WHERE conversation = OLD.number;
    DELETE FROM navigations WHERE conversation = OLD.number;
    DELETE FROM model_calls WHERE conversation = OLD.number;
  ELSIF NEW.user_id <> OLD.user_id THEN
    PERFORM count_bytes(OLD.user_id, -(OLD.stored_bytes + octet_length(OLD.config)));
    PERFORM count_bytes(NEW.user_id, NEW.stored_bytes + octet_length(NEW.config));
  ELSE
    PERFORM count_bytes(NEW.user_id,
      NEW.stored_bytes + octet_length(NEW.config) - OLD.stored_bytes - octet_length(OLD.config));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER conversation_made AFTER INSERT OR DELETE ON conversations
  FOR EACH ROW EXECUTE FUNCTION conversation_changed();
CREATE TRIGGER conversation_changed AFTER UPDATE ON conversations FOR EACH ROW
  WHEN ((NEW.stored_bytes <> OLD.stored_bytes OR NEW.user_id <> OLD.user_id OR NEW.config <> OLD.config)
    AND current_setting('sandpiper.counted', true) IS DISTINCT FROM 'yes')
  EXECUTE FUNCTION conversation_changed();

CREATE FUNCTION conversation_placed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- The lock makes a claim of the sandbox wait, which then finds the conversation.
  SELECT s.owner, s.epoch INTO NEW.owner, NEW.epoch FROM sandboxes s WHERE s.id = NEW.sandbox_id FOR SHARE;
  IF NOT FOUND THEN
    -- The sandbox may be created at the same time: the second of both sees the first.
    PERFORM pg_advisory_xact_lock(hashtextextended(NEW.sandbox_id, 0));
    SELECT s.owner, s.epoch INTO NEW.owner, NEW.epoch FROM sandboxes s WHERE s.id = NEW.sandbox_id FOR SHARE;
  END IF;
  NEW.epoch := coalesce(NEW.epoch, 0);
  RETURN NEW;
END $$;
CREATE TRIGGER conversation_placed BEFORE INSERT OR UPDATE OF sandbox_id ON conversations
  FOR EACH ROW EXECUTE FUNCTION conversation_placed();

CREATE FUNCTION sandbox_placed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(NEW.id, 0));
  UPDATE conversations SET owner = NEW.owner, epoch = NEW.epoch WHERE sandbox_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER sandbox_placed AFTER INSERT ON sandboxes FOR EACH ROW WHEN (NEW.owner IS NOT NULL)
  EXECUTE FUNCTION sandbox_placed();

CREATE FUNCTION part_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE conversations SET stored_bytes = stored_bytes + octet_length(NEW.document) - CASE
      WHEN TG_OP = 'UPDATE' THEN octet_length(OLD.document) ELSE 0 END
    WHERE id = NEW.conversation_id;
  RETURN NULL;
END $$;
CREATE TRIGGER context_changed AFTER INSERT OR UPDATE OF document ON conversation_contexts
  FOR EACH ROW EXECUTE FUNCTION part_changed();
CREATE TRIGGER agent_changed AFTER INSERT OR UPDATE OF document ON conversation_agents
  FOR EACH ROW EXECUTE FUNCTION part_changed();

CREATE FUNCTION pending_message_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM count_bytes(NEW.user_id, octet_length(NEW.content));
  ELSE
    PERFORM count_bytes(OLD.user_id, -octet_length(OLD.content));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER pending_message_changed AFTER INSERT OR DELETE ON pending_messages FOR EACH ROW
  WHEN (current_setting('sandpiper.counted', true) IS DISTINCT FROM 'yes')
  EXECUTE FUNCTION pending_message_changed();

CREATE FUNCTION reference_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE blobs SET unused_since = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE digest = OLD.digest AND NOT EXISTS (SELECT 1 FROM blob_references r WHERE r.digest = OLD.digest);
  RETURN NULL;
END $$;
CREATE TRIGGER reference_ended AFTER DELETE OR UPDATE OF digest ON blob_references
  FOR EACH ROW EXECUTE FUNCTION reference_ended();

CREATE FUNCTION copy_behaviours(to_holder text, from_holder text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO behaviours (holder, user_id, working_dir, digest, origin, parts)
    SELECT to_holder, user_id, working_dir, digest, origin, parts FROM behaviours
      WHERE holder = from_holder ORDER BY number
    ON CONFLICT (holder, digest) DO NOTHING;
$$;
CREATE FUNCTION holder_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM behaviours WHERE holder = OLD.id;
    DELETE FROM blob_references WHERE holder = OLD.id;
  ELSIF TG_TABLE_NAME = 'snapshots' THEN
    PERFORM copy_behaviours(NEW.id, NEW.sandbox_id);
  ELSIF NEW.snapshot_id IS NOT NULL THEN
    PERFORM copy_behaviours(NEW.id, NEW.snapshot_id);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER snapshot_changed AFTER INSERT OR DELETE ON snapshots
  FOR EACH ROW EXECUTE FUNCTION holder_changed();
CREATE TRIGGER sandbox_changed AFTER INSERT OR DELETE ON sandboxes
  FOR EACH ROW EXECUTE FUNCTION holder_changed();
`;
