import type { EventLoopScheduler, TimeSlicedQueue } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { StorageQuotas } from "../../config/storage-quotas.ts";
import { type AppendAnswer, type AppendJob, appendBatch } from "./append-batch.ts";
import { appendFailure } from "./append-failure.ts";
import { type Connection, type Database, toQuery } from "./database.ts";
import { isRepeatable, uncertain } from "./errors.ts";

/** Most jobs and most bytes of a batch: a larger batch would hold its locks for long. */
const maxJobs = 256;
const maxBytes = 8 * 2 ** 20;
/** How long the queue waits for the end of a broken connection's process, ms. */
const endMs = 5_000;

/** How long the queue waits for a database that is away when an answer was lost, ms. */
const recoverMs = 60_000;

const unknownAnswer: AppendAnswer = { failure: "uncertain", seq: 0, micros: 0, head: null };

interface Waiting {
  job: AppendJob;
  resolve(answer: AppendAnswer): void;
  reject(error: unknown): void;
}

export interface AppendQueueParts {
  database: Database;
  quotas: StorageQuotas;
  /** Gives the results in time slices, so that many continuations do not block the server. */
  scheduler: EventLoopScheduler;
}

/** A batch whose connection broke before its answer came. */
class AnswerLost extends Error {
  /** Id of the database process that had the statement. */
  readonly processId: number | undefined;

  constructor(processId: number | undefined, cause: unknown) {
    super("The answer to an append was lost.", { cause });
    this.processId = processId;
  }
}

/**
 * Appends to all conversations in batches. While the database writes one batch, further appends
 * gather and share the next round trip and sync. After a lost answer the queue looks for the events
 * of the append in the database.
 */
export class AppendQueue {
  readonly #database: Database;
  readonly #quotas: StorageQuotas;
  readonly #waiting: Waiting[] = [];
  readonly #settled: TimeSlicedQueue;
  #running: Promise<void> | undefined;
  #isClosed = false;

  constructor({ database, quotas, scheduler }: AppendQueueParts) {
    this.#database = database;
    this.#quotas = quotas;
    this.#settled = scheduler.queue("stored appends");
  }

  /** Resolves when the records are durable. */
  append(job: AppendJob): Promise<AppendAnswer> {
    if (this.#isClosed) return Promise.reject(new Error("The store is closed."));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Writes the appends that wait, and refuses further ones. */
  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.#running) await this.#running;
    await this.#settled.drained();
  }

  async #run(): Promise<void> {
    // Appends of the same turn of the event loop share the first batch.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#write(this.#next());
    this.#running = undefined;
  }

  #next(): Waiting[] {
    const batch: Waiting[] = [];
    const rest: Waiting[] = [];
    const conversations = new Set<string>();
    let bytes = 0;
    for (const one of this.#waiting.splice(0)) {
      const { conversationId, events } = one.job;
      bytes += events.reduce((sum, { body }) => sum + body.length, 0);
      const isFull = batch.length > 0 && (batch.length === maxJobs || bytes > maxBytes);
      // A second append to a conversation goes into the next batch.
      if (isFull || conversations.has(conversationId)) rest.push(one);
      else batch.push(one);
      conversations.add(conversationId);
    }
    this.#waiting.push(...rest);
    return batch;
  }

  async #write(batch: readonly Waiting[]): Promise<void> {
    try {
      const answers = await this.#store(batch.map(({ job }) => job));
      for (const [index, { resolve, reject }] of batch.entries()) {
        const answer = answers[index]!;
        const { failure } = answer;
        this.#settled.add(() =>
          failure === null || failure === "stored" ? resolve(answer) : reject(appendFailure(failure)),
        );
      }
    } catch (error) {
      // One append may have failed all of them.
      if (batch.length > 1 && mayBeOfOne(error)) for (const one of batch) await this.#write([one]);
      else for (const { reject } of batch) reject(error);
    }
  }

  async #store(jobs: readonly AppendJob[]): Promise<AppendAnswer[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(jobs, false);
      } catch (error) {
        if (error instanceof AnswerLost) return this.#recover(jobs, error);
        if (attempt === 5 || !isRepeatable((error as Error).cause)) throw error;
      }
    }
  }

  #attempt(jobs: readonly AppendJob[], again: boolean): Promise<AppendAnswer[]> {
    let processId: number | undefined;
    return this.#database.use(
      (connection) => {
        processId = connection.processID;
        return appendBatch(connection, jobs, this.#quotas, again);
      },
      { whenBroken: (error) => new AnswerLost(processId, error) },
    );
  }

  /**
   * Ends the database process that had the batch, so that it cannot store the batch later. Then
   * appends the jobs that it has not stored. The queue cannot look for a job without events, so
   * such a job fails.
   */
  async #recover(jobs: readonly AppendJob[], first: AnswerLost): Promise<AppendAnswer[]> {
    let lost = first;
    const known = jobs.filter(({ events }) => events.length > 0);
    const deadline = performance.now() + recoverMs;
    for (;;) {
      try {
        const end = (connection: Connection) => endProcess(connection, lost.processId);
        await this.#database.use(end, { patienceMs: recoverMs });
        const answers = known.length > 0 ? await this.#attempt(known, true) : [];
        return jobs.map(({ events }) => (events.length > 0 ? answers.shift()! : unknownAnswer));
      } catch (error) {
        if (performance.now() > deadline) throw uncertain(error);
        if (error instanceof AnswerLost) lost = error;
        else if (!isUnavailable(error)) throw uncertain(error);
      }
    }
  }
}

function isUnavailable(error: unknown): boolean {
  return (error as { code?: string }).code === "DatabaseUnavailable";
}

/**
 * Ends a database process if it still is one of Sandpiper's: after a restart of the database
 * server, a process with the same id may belong to another program.
 */
async function endProcess(connection: Connection, processId: number | undefined): Promise<void> {
  if (processId === undefined) return;
  const sql = `SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity
    WHERE pid = $1 AND datname = current_database() AND usename = current_user AND application_name = 'sandpiper'
      AND pid <> pg_backend_pid()`;
  await connection.query(toQuery(sql, [processId, endMs], false, 2 * endMs));
}

/** Whether the error may come from one append of a batch. */
function mayBeOfOne(error: unknown): boolean {
  return !["DatabaseUnavailable", "StorageFull", "StorageBusy"].includes(
    (error as { code?: string }).code ?? "",
  );
}
