/** Most bytes and most events that a full conversation may still store to record its end. */
const endingBytes = 2 ** 20;
const endingEvents = 1_000;
const maxSeq = 2 ** 24 - 1;

/**
 * Functions of the log. Their names carry a version, so that servers of two versions can use one
 * database.
 *
 * `append_records_1` takes a batch of appends to different conversations; the arrays `p_…` have an
 * element for each append, `e_…` for each event and `c_…` for each model call, and `p_before` is
 * the number of events of the appends before. One loop decides and computes the rows, and one
 * statement for each table writes those of all appends: a short statement costs an append less than
 * a part of a long one. An append that is refused returns its failure and stores nothing; the
 * others are stored. A conversation that does not exist returns nothing. An event whose id the log
 * has already fails the whole batch. Conversations are locked in the order of their numbers and
 * sums after them in the order of the users, so that batches of several servers cannot block each
 * other. With `p_again`, an append whose first event is there with the same content was stored
 * before its answer was lost: it returns `stored` with the event's number. The function keeps the
 * sums itself, and tells the triggers so.
 */
export const functions = `
CREATE FUNCTION event_time(micros bigint) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT to_char(timestamp '1970-01-01' + (micros / 1000000) * interval '1 second'
    + (micros % 1000000) * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US')
$$;

CREATE FUNCTION find_exceeded(conversation_bytes bigint, the_user text, more bigint, is_ending boolean,
  conversation_quota bigint, user_quota bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF conversation_quota > 0 AND conversation_bytes + more >
      (conversation_quota + CASE WHEN is_ending THEN ${endingBytes} ELSE 0 END) THEN
    RETURN 'conversation-bytes';
  END IF;
  IF user_quota > 0 AND NOT is_ending AND
      (SELECT coalesce(sum(bytes), 0) FROM stored_bytes WHERE user_id = the_user) + more > user_quota THEN
    RETURN 'user-bytes';
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION append_records_1(
  p_conversation text[], p_micros bigint[], p_events integer[], p_before integer[], p_bytes bigint[], p_status text[],
  p_resets boolean[], p_metrics text[], p_stats text[], p_cost double precision[], p_delivers text[], p_ending boolean[],
  p_moves boolean[], p_target text[], p_target_index integer[], p_owner text[], p_epoch bigint[],
  e_id text[], e_kind text[], e_listed boolean[], e_body text[], c_job integer[], c_json text[], c_tools text[],
  p_again boolean, conversation_quota bigint, user_quota bigint)
RETURNS TABLE (job integer, failure text, seq integer, micros bigint, head text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET sandpiper.counted = 'yes' AS $$
#variable_conflict use_column
DECLARE
  log record;
  part integer := pg_backend_pid() % 16;
  event integer;
  last text;
  time text;
  size bigint;
  alive text;
  numbers bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_conversation)]);
  listed integer[] := array_fill(0, ARRAY[cardinality(p_conversation)]);
  firsts bigint[] := numbers;
  heads text[] := p_target;
  logs bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(e_id)]);
  seqs integer[] := array_fill(0, ARRAY[cardinality(e_id)]);
  indexes integer[] := array_fill(NULL::integer, ARRAY[cardinality(e_id)]);
  times text[] := e_id;
  texts text[] := e_id;
  users text[] := '{}';
  sizes bigint[] := '{}';
  spenders text[] := '{}';
  days text[] := '{}';
  sums double precision[] := '{}';
BEGIN
  FOR log IN SELECT number, id, user_id, last_seq, last_listed, last_micros, head, external, counted_cost, stored_bytes,
      execution_status, owner, epoch
    FROM conversations WHERE id = ANY (p_conversation) ORDER BY number FOR NO KEY UPDATE
  LOOP
    job := array_position(p_conversation, log.id);
    seq := log.last_seq + 1;
    micros := greatest(p_micros[job], log.last_micros + 1);
    head := CASE WHEN p_moves[job] THEN p_target[job] ELSE log.head END;
    failure := NULL;
    event := p_before[job];
    IF p_again THEN
      SELECT 'stored', e.seq INTO failure, seq FROM events e WHERE e.conversation = log.number AND e.id = e_id[event + 1]
        AND right(e.json, length(e_body[event + 1]) - 1) = substr(e_body[event + 1], 2);
      IF failure IS NULL THEN seq := log.last_seq + 1; END IF;
    END IF;
    IF p_epoch[job] IS NOT NULL AND p_owner[job] IS DISTINCT FROM alive THEN
      SELECT n.incarnation INTO alive FROM nodes n
        WHERE n.incarnation = p_owner[job] AND n.expires_at > clock_timestamp();
    END IF;
    IF failure IS NULL THEN
      failure := CASE
        WHEN p_epoch[job] IS NOT NULL AND (log.epoch <> p_epoch[job] OR log.owner IS DISTINCT FROM p_owner[job]
          OR alive IS DISTINCT FROM p_owner[job]) THEN 'ownership-lost'
        WHEN log.last_seq + p_events[job] > ${maxSeq} - CASE WHEN p_ending[job] THEN 0 ELSE ${endingEvents} END
          THEN 'log-full'
        WHEN p_moves[job] AND log.execution_status = 'running' THEN 'conversation-running'
        WHEN conversation_quota > 0 OR user_quota > 0 THEN find_exceeded(log.stored_bytes, log.user_id, p_bytes[job],
          p_ending[job], conversation_quota, user_quota)
      END;
    END IF;
    IF failure IS NULL AND p_delivers[job] IS NOT NULL THEN
      DELETE FROM pending_messages p WHERE p.id = p_delivers[job]
        RETURNING p.user_id, -octet_length(p.content) INTO last, size;
      IF FOUND THEN
        users := users || last;
        sizes := sizes || size;
      ELSE
        failure := 'delivered-already';
      END IF;
    END IF;
    RETURN NEXT;
    CONTINUE WHEN failure IS NOT NULL;

    IF p_moves[job] AND p_events[job] > 0 THEN
      INSERT INTO navigations (conversation, after, target, micros)
        VALUES (log.number, log.last_listed, p_target_index[job], micros)
        ON CONFLICT (conversation, after) DO UPDATE SET target = excluded.target;
    END IF;
    last := head;
    FOR place IN 1 .. p_events[job] LOOP
      event := event + 1;
      time := event_time(micros + place - 1);
      logs[event] := log.number;
      seqs[event] := log.last_seq + place;
      times[event] := time;
      IF e_listed[event] THEN
        listed[job] := listed[job] + 1;
        indexes[event] := log.last_listed + listed[job];
      END IF;
      texts[event] := '{"id":' || to_json(e_id[event]) || ',"timestamp":"' || time || '",' ||
        CASE WHEN e_listed[event] AND last <> '' THEN '"parent_id":' || to_json(last) || ',' ELSE '' END ||
        substr(e_body[event], 2);
      IF e_listed[event] AND last IS NOT NULL THEN last := e_id[event]; END IF;
    END LOOP;
    numbers[job] := log.number;
    firsts[job] := micros;
    heads[job] := CASE WHEN p_events[job] = 0 THEN log.head ELSE last END;
    users := users || log.user_id;
    sizes := sizes || p_bytes[job];
    IF p_cost[job] > log.counted_cost AND p_events[job] > 0 AND NOT log.external THEN
      spenders := spenders || log.user_id;
      days := days || left(time, 10);
      sums := sums || p_cost[job] - log.counted_cost;
    END IF;
  END LOOP;

  INSERT INTO events (conversation, seq, listed_index, id, kind, timestamp, json)
    SELECT * FROM unnest(logs, seqs, indexes, e_id, e_kind, times, texts) AS e(conversation) WHERE conversation IS NOT NULL;
  IF cardinality(c_job) > 0 THEN
    INSERT INTO model_calls (conversation, seq, tools, json)
      SELECT numbers[c.job], l.last_seq + p_events[c.job], c.tools, c.json
      FROM unnest(c_job, c_json, c_tools) WITH ORDINALITY AS c(job, json, tools, ordinal)
      JOIN conversations l ON l.number = numbers[c.job] ORDER BY c.ordinal;
  END IF;
  UPDATE conversations c SET
      last_seq = c.last_seq + a.events,
      last_listed = c.last_listed + a.listed,
      last_micros = CASE WHEN a.events > 0 THEN a.first + a.events - 1 ELSE c.last_micros END,
      updated_at = CASE WHEN a.events > 0 THEN greatest(c.updated_at, (a.first + a.events - 1) / 1000) ELSE c.updated_at END,
      execution_status = coalesce(a.status, c.execution_status),
      unclean_ends = CASE WHEN a.resets THEN 0 ELSE c.unclean_ends END,
      metrics = coalesce(a.metrics, c.metrics),
      stats = coalesce(a.stats, c.stats),
      counted_cost = coalesce(a.cost, c.counted_cost),
      stored_bytes = c.stored_bytes + a.more,
      head = a.head
    FROM unnest(numbers, p_events, listed, firsts, p_status, p_resets, p_metrics, p_stats, p_cost, p_bytes, heads)
      AS a(number, events, listed, first, status, resets, metrics, stats, cost, more, head)
    WHERE c.number = a.number;
  IF cardinality(spenders) > 0 THEN
    INSERT INTO spending (user_id, day, part, usd)
      SELECT s.user_id, s.day, part, sum(s.usd) FROM unnest(spenders, days, sums) AS s(user_id, day, usd)
      GROUP BY 1, 2 ORDER BY 1, 2
      ON CONFLICT (user_id, day, part) DO UPDATE SET usd = spending.usd + excluded.usd;
  END IF;
  INSERT INTO stored_bytes (user_id, part, bytes)
    SELECT b.user_id, part, sum(b.size) FROM unnest(users, sizes) AS b(user_id, size) GROUP BY 1 ORDER BY 1
    ON CONFLICT (user_id, part) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;
END $$;

CREATE FUNCTION copy_events_1(to_id text, from_id text, first integer, last integer, now_micros bigint,
  conversation_quota bigint, user_quota bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  source record;
  log record;
  failure text;
  more bigint;
  copied integer;
BEGIN
  SELECT * INTO log FROM conversations WHERE id = to_id FOR NO KEY UPDATE;
  SELECT * INTO source FROM conversations WHERE id = from_id;
  IF source.number IS NULL OR log.number IS NULL THEN RETURN 'conversation-not-found'; END IF;
  SELECT coalesce(sum(octet_length(json)), 0) INTO more FROM events
    WHERE conversation = source.number AND listed_index BETWEEN first AND last;
  -- The copy has no user yet: what it has counts for the user of the source.
  failure := find_exceeded(log.stored_bytes, source.user_id, more, false, conversation_quota, 0);
  IF failure IS NULL AND user_quota > 0 THEN
    failure := find_exceeded(0, source.user_id, log.stored_bytes + more, false, 0, user_quota);
  END IF;
  IF failure IS NOT NULL THEN RETURN failure; END IF;
  INSERT INTO events (conversation, seq, listed_index, id, kind, timestamp, json)
    SELECT log.number, log.last_seq + 1 - first + listed_index, log.last_seq + 1 - first + listed_index,
      id, kind, timestamp, json
    FROM events WHERE conversation = source.number AND listed_index BETWEEN first AND last
    ORDER BY listed_index;
  GET DIAGNOSTICS copied = ROW_COUNT;
  UPDATE conversations SET last_seq = last_seq + copied, last_listed = last_listed + copied,
      last_micros = greatest(now_micros, source.last_micros + 1), stored_bytes = stored_bytes + more
    WHERE number = log.number;
  RETURN NULL;
END $$;
`;
