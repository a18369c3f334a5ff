/** What a full conversation may still store to record that it ends: bytes and events. */
const endingBytes = 2 ** 20;
const endingEvents = 1_000;
const maxSeq = 2 ** 24 - 1;

/**
 * Functions of the log. Their names carry a version, so that servers of two versions can use one
 * database.
 *
 * `append_records_1` takes a batch of appends to different conversations, in one statement for all
 * of them; the arrays `p_…` have an element for each append, `e_…` for each event and `c_…` for
 * each model call. An append that is refused returns its failure and stores nothing; the others are
 * stored. Conversations are locked in the order of their numbers and sums in the order of the
 * users, so that batches of several servers cannot block each other. With `p_again`, an append
 * whose first event is there with the same content was stored before its answer was lost: it
 * returns `stored` with the event's number. It keeps the sums itself, and tells the triggers so.
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
  p_conversation text[], p_micros bigint[], p_events integer[], p_bytes bigint[], p_status text[], p_resets boolean[],
  p_metrics text[], p_stats text[], p_cost double precision[], p_delivers text[], p_ending boolean[],
  p_moves boolean[], p_target text[], p_target_index integer[], p_owner text[], p_epoch bigint[],
  e_job integer[], e_id text[], e_kind text[], e_listed boolean[], e_body text[],
  c_job integer[], c_json text[], c_tools text[],
  p_again boolean, conversation_quota bigint, user_quota bigint)
RETURNS TABLE (job integer, failure text, seq integer, micros bigint, head text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off SET sandpiper.counted = 'yes' AS $$
#variable_conflict use_column
BEGIN
  PERFORM 1 FROM conversations WHERE id = ANY (p_conversation) ORDER BY number FOR NO KEY UPDATE;
  RETURN QUERY
  WITH jobs AS MATERIALIZED (
    SELECT u.*, c.number, c.user_id, c.last_seq, c.last_listed, c.head AS old_head, c.external, c.counted_cost,
      greatest(u.at, c.last_micros + 1) AS first_micros,
      CASE WHEN u.moves THEN u.target ELSE c.head END AS first_head,
      CASE
        WHEN c.number IS NULL THEN 'conversation-not-found'
        WHEN u.epoch IS NOT NULL AND (c.epoch <> u.epoch OR c.owner IS DISTINCT FROM u.owner
          OR NOT EXISTS (SELECT 1 FROM nodes n WHERE n.incarnation = u.owner AND n.expires_at > clock_timestamp()))
          THEN 'ownership-lost'
        WHEN c.last_seq + u.events > ${maxSeq} - CASE WHEN u.ending THEN 0 ELSE ${endingEvents} END THEN 'log-full'
        WHEN u.moves AND c.execution_status = 'running' THEN 'conversation-running'
        WHEN conversation_quota > 0 AND c.stored_bytes + u.more >
          conversation_quota + CASE WHEN u.ending THEN ${endingBytes} ELSE 0 END THEN 'conversation-bytes'
        WHEN user_quota > 0 AND NOT u.ending AND
          (SELECT sum(b.bytes) FROM stored_bytes b WHERE b.user_id = c.user_id) + u.more > user_quota THEN 'user-bytes'
      END AS refusal
    FROM unnest(p_conversation, p_micros, p_events, p_bytes, p_status, p_resets, p_metrics, p_stats, p_cost, p_delivers,
      p_ending, p_moves, p_target, p_target_index, p_owner, p_epoch) WITH ORDINALITY
      AS u(conversation, at, events, more, status, resets, metrics, stats, cost, delivers,
        ending, moves, target, target_index, owner, epoch, job)
    LEFT JOIN conversations c ON c.id = u.conversation
  ), parts AS MATERIALIZED (
    SELECT e.*, row_number() OVER places AS place, count(*) FILTER (WHERE e.listed) OVER places AS nth,
      lag(e.id) OVER (PARTITION BY e.job, e.listed ORDER BY e.ordinal) AS before
    FROM unnest(e_job, e_id, e_kind, e_listed, e_body) WITH ORDINALITY AS e(job, id, kind, listed, body, ordinal)
    WINDOW places AS (PARTITION BY e.job ORDER BY e.ordinal)
  ), existing AS (
    SELECT p.job, min(e.seq) AS seq, bool_or(p.place = 1 AND right(e.json, length(p.body) - 1) = substr(p.body, 2)) AS is_same
    FROM parts p JOIN jobs j ON j.job = p.job JOIN events e ON e.conversation = j.number AND e.id = p.id
    GROUP BY p.job
  ), decided AS MATERIALIZED (
    SELECT j.*, x.seq AS stored_seq, CASE
        WHEN p_again AND x.is_same THEN 'stored'
        WHEN j.refusal IS NOT NULL THEN j.refusal
        WHEN x.job IS NOT NULL THEN 'event-exists' END AS decision
    FROM jobs j LEFT JOIN existing x ON x.job = j.job
  ), delivered AS (
    DELETE FROM pending_messages p USING decided d WHERE p.id = d.delivers AND d.decision IS NULL
    RETURNING p.id, p.user_id, octet_length(p.content) AS size
  ), final AS MATERIALIZED (
    SELECT d.*, CASE WHEN d.decision IS NULL AND d.delivers IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM delivered x WHERE x.id = d.delivers)
        THEN 'delivered-already' ELSE d.decision END AS outcome
    FROM decided d
  ), stored AS (
    INSERT INTO events (conversation, seq, listed_index, id, kind, timestamp, json)
      SELECT f.number, f.last_seq + p.place, CASE WHEN p.listed THEN f.last_listed + p.nth END, p.id, p.kind,
        event_time(f.first_micros + p.place - 1),
        '{"id":' || to_json(p.id) || ',"timestamp":"' || event_time(f.first_micros + p.place - 1) || '",' ||
        CASE WHEN p.listed AND f.first_head IS NOT NULL AND coalesce(p.before, f.first_head) <> ''
          THEN '"parent_id":' || to_json(coalesce(p.before, f.first_head)) || ',' ELSE '' END ||
        substr(p.body, 2)
      FROM parts p JOIN final f ON f.job = p.job WHERE f.outcome IS NULL ORDER BY p.ordinal
  ), navigated AS (
    INSERT INTO navigations (conversation, after, target, micros)
      SELECT f.number, f.last_listed, f.target_index, f.first_micros FROM final f
      WHERE f.outcome IS NULL AND f.moves AND f.events > 0
      ON CONFLICT (conversation, after) DO UPDATE SET target = excluded.target
  ), called AS (
    INSERT INTO model_calls (conversation, seq, tools, json)
      SELECT f.number, f.last_seq + f.events, c.tools, c.json
      FROM unnest(c_job, c_json, c_tools) WITH ORDINALITY AS c(job, json, tools, ordinal)
      JOIN final f ON f.job = c.job WHERE f.outcome IS NULL ORDER BY c.ordinal
  ), ends AS (
    SELECT p.job, count(*) FILTER (WHERE p.listed) AS listed,
      (array_agg(p.id ORDER BY p.ordinal DESC) FILTER (WHERE p.listed))[1] AS last_id
    FROM parts p GROUP BY p.job
  ), changed AS (
    UPDATE conversations c SET
      last_seq = c.last_seq + f.events,
      last_listed = c.last_listed + coalesce(e.listed, 0),
      last_micros = CASE WHEN f.events > 0 THEN f.first_micros + f.events - 1 ELSE c.last_micros END,
      updated_at = CASE WHEN f.events > 0
        THEN greatest(c.updated_at, (f.first_micros + f.events - 1) / 1000) ELSE c.updated_at END,
      execution_status = coalesce(f.status, c.execution_status),
      unclean_ends = CASE WHEN f.resets THEN 0 ELSE c.unclean_ends END,
      metrics = coalesce(f.metrics, c.metrics),
      stats = coalesce(f.stats, c.stats),
      counted_cost = coalesce(f.cost, c.counted_cost),
      stored_bytes = c.stored_bytes + f.more,
      head = CASE WHEN f.events = 0 THEN c.head
        WHEN f.first_head IS NULL THEN NULL ELSE coalesce(e.last_id, f.first_head) END
    FROM final f LEFT JOIN ends e ON e.job = f.job WHERE c.number = f.number AND f.outcome IS NULL
  ), spent AS (
    INSERT INTO spending (user_id, day, part, usd)
      SELECT f.user_id, left(event_time(f.first_micros + f.events - 1), 10) AS day, pg_backend_pid() % 16,
        sum(f.cost - f.counted_cost)
      FROM final f WHERE f.outcome IS NULL AND f.events > 0 AND f.cost > f.counted_cost AND NOT f.external
      GROUP BY 1, 2 ORDER BY 1, 2
      ON CONFLICT (user_id, day, part) DO UPDATE SET usd = spending.usd + excluded.usd
  ), counted AS (
    INSERT INTO stored_bytes (user_id, part, bytes)
      SELECT b.user_id, pg_backend_pid() % 16, sum(b.size) FROM
        (SELECT f.user_id, f.more AS size FROM final f WHERE f.outcome IS NULL
         UNION ALL SELECT d.user_id, -d.size FROM delivered d) b
      GROUP BY 1 ORDER BY 1
      ON CONFLICT (user_id, part) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes
  )
  SELECT f.job::integer, f.outcome, CASE WHEN f.outcome = 'stored' THEN f.stored_seq ELSE f.last_seq + 1 END,
    f.first_micros, f.first_head FROM final f;
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
