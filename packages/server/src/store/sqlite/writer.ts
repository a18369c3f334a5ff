import { DatabaseSync, type StatementSync } from "node:sqlite";
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { eventTime } from "@sandpiper/wire/common/time";
import type { StorageQuotas } from "../../config/storage-quotas.ts";
import { serializeEvent } from "../event-json.ts";
import type { AppendStamps } from "../sql/append-draft.ts";
import { maxSeq } from "../sql/max-seq.ts";
import { findExceeded, type Stored } from "../sql/quotas.ts";
import { DiskReserve } from "./disk-reserve.ts";
import { eventKey } from "./event-key.ts";
import {
  type AppendJob,
  type CopyJob,
  endsTransaction,
  isDiskFullCode,
  type Job,
  type Result,
  type RunJob,
  sqliteFull,
  type WriteFailure,
} from "./protocol.ts";

/**
 * The thread with the writing connection. All queued jobs share one transaction and one sync (group
 * commit); results are sent after the commit.
 */

/** A failure that a job detects before it writes. */
class JobFailed extends Error {
  readonly failure: WriteFailure;

  constructor(failure: WriteFailure) {
    super(failure.reason);
    this.failure = failure;
  }
}

/** What an event takes besides its text, with its index entries, bytes. */
const rowBytes = 128;

const port = parentPort as MessagePort;
const { file, busyMs, quotas } = workerData as { file: string; busyMs: number; quotas: StorageQuotas };
const database = new DatabaseSync(file, { timeout: busyMs });
database.exec("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 67108864");
// Each event changes a table and four indexes: a larger cache (KiB) and rarer checkpoints (pages)
// give 1.5 times the events per second in `npm run bench -- sockets`.
database.exec("PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4096");

const reserve = new DiskReserve(file);

const statements = new Map<string, StatementSync>();
function prepare(sql: string): StatementSync {
  let statement = statements.get(sql);
  if (!statement) {
    statement = database.prepare(sql);
    statements.set(sql, statement);
  }
  return statement;
}

const begin = prepare("BEGIN IMMEDIATE");
const commit = prepare("COMMIT");
const savepoint = prepare("SAVEPOINT job");
const release = prepare("RELEASE job");
const undo = prepare("ROLLBACK TO job");
const findLog = prepare(
  `SELECT number, last_seq, last_listed, last_micros, head, stored_bytes AS conversationBytes,
     coalesce((SELECT bytes FROM stored_bytes s WHERE s.user_id = c.user_id), 0) AS userBytes
   FROM conversations c WHERE id = ?`,
);
const insertEvent = prepare(
  "INSERT INTO events (key, conversation, listed_index, id, kind, timestamp, json) VALUES (?, ?, ?, ?, ?, ?, ?)",
);
const isRunning = prepare("SELECT 1 FROM conversations WHERE number = ? AND execution_status = 'running'");
const insertNavigation = prepare(
  `INSERT INTO navigations (conversation, after, target, micros) VALUES (?, ?, ?, ?)
   ON CONFLICT (conversation, after) DO UPDATE SET target = excluded.target`,
);
const moveHead = prepare("UPDATE conversations SET head = ? WHERE number = ?");
const copyEvents = prepare(
  `INSERT INTO events (key, conversation, listed_index, id, kind, timestamp, json)
   SELECT ? + listed_index, ?, ? + listed_index, id, kind, timestamp, json FROM events
   WHERE conversation = ? AND listed_index BETWEEN ? AND ?`,
);
const sumCopy = prepare(
  `SELECT coalesce(sum(octet_length(json)), 0) AS bytes FROM events
   WHERE conversation = ? AND listed_index BETWEEN ? AND ?`,
);
const endCopy = prepare(
  `UPDATE conversations SET last_seq = ?, last_listed = ?, last_micros = ?, stored_bytes = stored_bytes + ?
   WHERE number = ?`,
);
const addBytes = prepare("UPDATE conversations SET stored_bytes = stored_bytes + ? WHERE number = ?");
const findUserBytes = prepare("SELECT bytes FROM stored_bytes WHERE user_id = ?");
const insertCall = prepare("INSERT INTO model_calls (conversation, seq, json) VALUES (?, ?, ?)");
const removePending = prepare("DELETE FROM pending_messages WHERE id = ?");
const updateLog = prepare(
  `UPDATE conversations SET last_seq = ?, last_listed = ?, last_micros = ?, updated_at = max(updated_at, ?),
     execution_status = coalesce(?, execution_status), unclean_ends = iif(?, 0, unclean_ends), metrics = coalesce(?, metrics), stats = coalesce(?, stats),
     stored_bytes = stored_bytes + ?
   WHERE number = ?`,
);
// External agents are not paid for here; the cost of sub-agents counts in their own conversations.
const addSpending = prepare(
  `INSERT INTO spending (user_id, day, usd)
     SELECT user_id, ?1, ?2 - counted FROM
       (SELECT user_id, config, CASE WHEN stats IS NULL THEN coalesce(json_extract(metrics, '$.accumulated_cost'), 0) ELSE
          (SELECT coalesce(sum(value ->> '$.accumulated_cost'), 0) FROM json_each(stats, '$.usage_to_metrics') WHERE key NOT LIKE 'task:%') END AS counted
        FROM conversations WHERE number = ?3)
     WHERE coalesce(json_extract(config, '$.external'), 0) = 0 AND ?2 > counted
   ON CONFLICT (user_id, day) DO UPDATE SET usd = usd + excluded.usd`,
);

port.on("message", (first: Job[] | "close") => {
  const jobs: Job[] = [];
  for (
    let next: Job[] | "close" | undefined = first;
    next !== undefined;
    next = receiveMessageOnPort(port)?.message
  ) {
    if (next === "close") {
      answer(jobs);
      database.close();
      reserve.close();
      port.close();
      return;
    }
    jobs.push(...next);
  }
  answer(jobs);
});
port.postMessage("ready");

function answer(jobs: Job[]): void {
  if (jobs.length > 0) port.postMessage(reserve.restore() ? transact(jobs) : jobs.flatMap(whenFull));
}

/** On a disk that has no room for the whole reserve, only jobs that may use it run. */
function whenFull(job: Job): Result[] {
  if (job.type !== "copy" && job.usesReserve) {
    shortenLog();
    return transact([job], attemptWithSavepoint);
  }
  const message = "database or disk is full";
  return [{ ok: false, failure: { reason: "error", errcode: sqliteFull, message } }];
}

/**
 * Writes the write-ahead log into the database, so that the next job overwrites the log instead of
 * making it longer: otherwise each job on a full disk takes from the reserve.
 */
function shortenLog(): void {
  try {
    database.exec("PRAGMA busy_timeout = 1000; PRAGMA wal_checkpoint(RESTART)");
  } catch {
    // The database needs room too: the job takes it from the reserve.
  } finally {
    database.exec(`PRAGMA busy_timeout = ${busyMs}`);
  }
}

/**
 * Runs all jobs in one transaction. If one fails after writing, all run again with a savepoint
 * each, which is slower because it copies every changed page. If the commit fails, each job runs
 * alone, and on a full disk again with a part of the reserve.
 */
function transact(jobs: Job[], attempt = attemptAtOnce): Result[] {
  try {
    begin.run();
  } catch (error) {
    // Another program holds the lock for too long, or the disk is full.
    if (canRelease(jobs, error)) return transact(jobs, attempt);
    noteFull(error);
    return jobs.map(() => ({ ok: false, failure: toFailure(error) }));
  }
  try {
    const results = jobs.map(attempt);
    commit.run();
    return results;
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    if (attempt === attemptAtOnce) return transact(jobs, attemptWithSavepoint);
    if (jobs.length > 1) return jobs.flatMap((job) => transact([job], attemptWithSavepoint));
    if (canRelease(jobs, error)) return transact(jobs, attemptWithSavepoint);
    noteFull(error);
    return [{ ok: false, failure: toFailure(error) }];
  }
}

function noteFull(error: unknown): void {
  if (isDiskFullCode((error as { errcode?: number }).errcode ?? 0)) reserve.noteFull();
}

/** Frees a part of the reserve for a single job that failed on a full disk and may use it. */
function canRelease([job, ...others]: Job[], error: unknown): boolean {
  if (!job || job.type === "copy" || !job.usesReserve || others.length > 0) return false;
  if (!isDiskFullCode((error as { errcode?: number }).errcode ?? 0) || !reserve.release()) return false;
  shortenLog();
  return true;
}

/** Throws SQLite's errors; a failure before any write is a result. */
function attemptAtOnce(job: Job): Result {
  try {
    return { ok: true, value: perform(job) };
  } catch (error) {
    if (error instanceof JobFailed) return { ok: false, failure: error.failure };
    throw error;
  }
}

function attemptWithSavepoint(job: Job): Result {
  savepoint.run();
  try {
    const value = perform(job);
    release.run();
    return { ok: true, value };
  } catch (error) {
    const failure = toFailure(error);
    if (!database.isTransaction || (failure.reason === "error" && endsTransaction(failure.errcode)))
      throw error;
    undo.run();
    release.run();
    return { ok: false, failure };
  }
}

function perform(job: Job): AppendStamps | number {
  if (job.type === "append") return append(job);
  if (job.type === "copy") return copy(job);
  if (job.userId !== undefined) {
    const found = findUserBytes.get(job.userId) as { bytes: number } | undefined;
    requireRoom({ conversationBytes: 0, userBytes: found?.bytes ?? 0 }, sizeOf(job), false);
  }
  if (job.full && prepare(job.full.sql).get(...job.full.parameters)) throw new JobFailed({ reason: "limit" });
  return job.statements.map(run).at(-1)!;
}

/** Throws JobFailed when further bytes exceed a quota. */
function requireRoom(stored: Stored, bytes: number, isEnding: boolean): void {
  const quota = findExceeded(stored, bytes, quotas, isEnding);
  if (quota) throw new JobFailed({ reason: "quota", quota });
}

/** Bytes of the texts of statements. */
function sizeOf({ statements }: RunJob): number {
  const values = statements.flatMap(({ parameters }) => parameters);
  return values.reduce<number>(
    (sum, value) => sum + (typeof value === "string" ? Buffer.byteLength(value) : 0),
    0,
  );
}

function run(statement: {
  sql: string;
  parameters: readonly (null | number | string | Uint8Array)[];
}): number {
  return Number(prepare(statement.sql).run(...statement.parameters).changes);
}

/** What a full log may still take to record that a run ends. */
const endingEvents = 1_000;

interface Log extends Stored {
  number: number;
  last_seq: number;
  last_listed: number;
  last_micros: number;
  head: string | null;
}

function append(job: AppendJob): AppendStamps {
  const log = findLog.get(job.conversationId) as Log | undefined;
  if (!log) throw new JobFailed({ reason: "conversation-not-found" });
  if (log.last_seq + job.events.length > maxSeq - (job.isEnding ? 0 : endingEvents))
    throw new JobFailed({ reason: "log-full" });
  const { navigate } = job;
  if (navigate !== undefined && isRunning.get(log.number))
    throw new JobFailed({ reason: "conversation-running" });
  const texts = [...job.calls, ...job.events.map(({ body }) => body)];
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text) + rowBytes, 0);
  requireRoom(log, bytes, job.isEnding);
  // This is the first write of the job, so a failure before it needs no rollback.
  if (job.delivers !== null && removePending.run(job.delivers).changes === 0) {
    throw new JobFailed({ reason: "delivered-already" });
  }
  const micros = Math.max(job.nowMicros, log.last_micros + 1);
  const stamps = {
    seq: log.last_seq + 1,
    micros,
    head: navigate === undefined ? log.head : (navigate?.eventId ?? ""),
  };
  for (const call of job.calls) insertCall.run(log.number, log.last_seq + job.events.length, call);
  if (job.events.length === 0) {
    addBytes.run(bytes, log.number);
    return stamps;
  }
  if (navigate !== undefined) insertNavigation.run(log.number, log.last_listed, navigate?.index ?? 0, micros);

  let listed = log.last_listed;
  let { head } = stamps;
  for (const [index, event] of job.events.entries()) {
    if (event.listed) listed += 1;
    const timestamp = eventTime(stamps.micros + index);
    insertEvent.run(
      eventKey(log.number, stamps.seq + index),
      log.number,
      event.listed ? listed : null,
      event.id,
      event.kind,
      timestamp,
      serializeEvent(event.id, timestamp, event.body, event.listed && head !== null ? head : ""),
    );
    if (event.listed && head !== null) head = event.id;
  }
  const last = job.events.length - 1;
  const lastMicros = micros + last;
  const updatedAt = Math.floor(lastMicros / 1000);
  // The old summary has the cost that is already counted.
  if (job.cost !== null) addSpending.run(eventTime(lastMicros).slice(0, 10), job.cost, log.number);
  updateLog.run(
    stamps.seq + last,
    listed,
    lastMicros,
    updatedAt,
    job.executionStatus,
    job.resetsUncleanEnds ? 1 : 0,
    job.metrics,
    job.stats,
    bytes,
    log.number,
  );
  if (head !== log.head) moveHead.run(head, log.number);
  return stamps;
}

/** Copies events unchanged except for their keys. */
function copy({ conversationId, sourceId, span, nowMicros }: CopyJob): number {
  const source = findLog.get(sourceId) as Log | undefined;
  const log = findLog.get(conversationId) as Log | undefined;
  if (!source || !log) throw new JobFailed({ reason: "conversation-not-found" });
  const { bytes } = sumCopy.get(source.number, span.first, span.last) as { bytes: number };
  // The copy has no user yet.
  const { conversationBytes } = log;
  requireRoom({ conversationBytes, userBytes: source.userBytes + conversationBytes }, bytes, false);
  const shift = log.last_seq + 1 - span.first;
  const copied = copyEvents.run(
    eventKey(log.number, shift),
    log.number,
    shift,
    source.number,
    span.first,
    span.last,
  );
  const last = log.last_seq + Number(copied.changes);
  endCopy.run(last, last, Math.max(nowMicros, source.last_micros + 1), bytes, log.number);
  return Number(copied.changes);
}

function toFailure(error: unknown): WriteFailure {
  if (error instanceof JobFailed) return error.failure;
  const { errcode, message } = error as { errcode?: number; message?: string };
  return { reason: "error", errcode: errcode ?? 0, message: message ?? String(error) };
}
