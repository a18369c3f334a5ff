/**
 * Counts what users store, in the transaction of each write. `conversations.stored_bytes` has the
 * bytes of a conversation's events, model calls, project context and agent; `stored_bytes` has the
 * sum of each user's conversations, with their configuration and pending messages. Triggers keep
 * the sums, so that no statement can forget them.
 */
export const storedBytes = `
ALTER TABLE conversations ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE conversations SET stored_bytes =
  (SELECT coalesce(sum(octet_length(json)), 0) FROM events WHERE conversation = number)
  + (SELECT coalesce(sum(octet_length(json)), 0) FROM model_calls WHERE conversation = conversations.number)
  + (SELECT coalesce(sum(octet_length(document)), 0) FROM conversation_contexts WHERE conversation_id = id)
  + (SELECT coalesce(sum(octet_length(document)), 0) FROM conversation_agents WHERE conversation_id = id);

CREATE TABLE stored_bytes (user_id TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID, STRICT;
INSERT INTO stored_bytes (user_id, bytes)
  SELECT user_id, sum(bytes) FROM
    (SELECT user_id, stored_bytes + octet_length(config) AS bytes FROM conversations
     UNION ALL SELECT user_id, octet_length(content) FROM pending_messages) GROUP BY user_id;

CREATE TRIGGER conversation_made AFTER INSERT ON conversations BEGIN
  INSERT INTO stored_bytes (user_id, bytes) VALUES (NEW.user_id, NEW.stored_bytes + octet_length(NEW.config))
    ON CONFLICT (user_id) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER conversation_removed AFTER DELETE ON conversations BEGIN
  UPDATE stored_bytes SET bytes = bytes - OLD.stored_bytes - octet_length(OLD.config) WHERE user_id = OLD.user_id;
END;
CREATE TRIGGER conversation_grew AFTER UPDATE OF stored_bytes ON conversations
WHEN NEW.user_id = OLD.user_id AND NEW.stored_bytes <> OLD.stored_bytes BEGIN
  UPDATE stored_bytes SET bytes = bytes + NEW.stored_bytes - OLD.stored_bytes WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER conversation_configured AFTER UPDATE OF config ON conversations
WHEN NEW.user_id = OLD.user_id BEGIN
  UPDATE stored_bytes SET bytes = bytes + octet_length(NEW.config) - octet_length(OLD.config) WHERE user_id = NEW.user_id;
END;
CREATE TRIGGER conversation_given AFTER UPDATE OF user_id ON conversations
WHEN NEW.user_id <> OLD.user_id BEGIN
  UPDATE stored_bytes SET bytes = bytes - OLD.stored_bytes - octet_length(OLD.config) WHERE user_id = OLD.user_id;
  INSERT INTO stored_bytes (user_id, bytes) VALUES (NEW.user_id, NEW.stored_bytes + octet_length(NEW.config))
    ON CONFLICT (user_id) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER context_made AFTER INSERT ON conversation_contexts BEGIN
  UPDATE conversations SET stored_bytes = stored_bytes + octet_length(NEW.document) WHERE id = NEW.conversation_id;
END;
CREATE TRIGGER context_changed AFTER UPDATE OF document ON conversation_contexts BEGIN
  UPDATE conversations SET stored_bytes = stored_bytes + octet_length(NEW.document) - octet_length(OLD.document)
    WHERE id = NEW.conversation_id;
END;
CREATE TRIGGER agent_made AFTER INSERT ON conversation_agents BEGIN
  UPDATE conversations SET stored_bytes = stored_bytes + octet_length(NEW.document) WHERE id = NEW.conversation_id;
END;
CREATE TRIGGER agent_changed AFTER UPDATE OF document ON conversation_agents BEGIN
  UPDATE conversations SET stored_bytes = stored_bytes + octet_length(NEW.document) - octet_length(OLD.document)
    WHERE id = NEW.conversation_id;
END;

CREATE TRIGGER pending_message_made AFTER INSERT ON pending_messages BEGIN
  INSERT INTO stored_bytes (user_id, bytes) VALUES (NEW.user_id, octet_length(NEW.content))
    ON CONFLICT (user_id) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER pending_message_removed AFTER DELETE ON pending_messages BEGIN
  UPDATE stored_bytes SET bytes = bytes - octet_length(OLD.content) WHERE user_id = OLD.user_id;
END;
`;
