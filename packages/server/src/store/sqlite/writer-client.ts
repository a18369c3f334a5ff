import { Worker } from "node:worker_threads";
import { PlatformError } from "@sandpiper/core/errors";
import { EventLoopScheduler, type TimeSlicedQueue } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { StorageQuotas } from "../../config/storage-quotas.ts";
import type { AppendStamps } from "../sql/append-draft.ts";
import { ConstraintViolation } from "../sql/constraint-violation.ts";
import type { CopyOrder, SqlWriter, WriteLimit } from "../sql/engine.ts";
import type { Statement } from "../sql/statement.ts";
import {
  type AppendJob,
  isDiskFullCode,
  type Job,
  primaryCode,
  type Result,
  sqliteBusy,
  sqliteConstraint,
  type WriteFailure,
} from "./protocol.ts";

const unlimited: StorageQuotas = { conversationBytes: 0, userBytes: 0 };

interface PendingJob {
  resolve(value: AppendStamps | number): void;
  reject(error: unknown): void;
}

export interface WriterOptions {
  /** How long a write waits for another program's lock. */
  busyMs?: number;
  scheduler?: EventLoopScheduler | undefined;
  quotas?: StorageQuotas;
}

/**
 * Client of the writer thread. Jobs of one event loop iteration are sent in one message. Promises
 * settle in the order of the jobs, after the commit, in time slices so that many continuations do
 * not block the server.
 */
export class WriterClient implements SqlWriter {
  /** Number of writes so far. */
  version = 0;
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  readonly #waiting: PendingJob[] = [];
  readonly #settled: TimeSlicedQueue;
  #outbox: Job[] = [];
  #ended: Error | undefined;

  /** Starts the thread for a migrated database. */
  static async start(
    file: string,
    { busyMs = 30_000, scheduler = new EventLoopScheduler(), quotas = unlimited }: WriterOptions = {},
  ): Promise<WriterClient> {
    const worker = new Worker(new URL("./writer.ts", import.meta.url), {
      workerData: { file, busyMs, quotas },
      name: "store-writer",
    });
    await new Promise<void>((resolve, reject) => {
      worker.once("error", reject);
      worker.once("message", () => {
        worker.off("error", reject);
        resolve();
      });
    });
    return new WriterClient(worker, scheduler);
  }

  private constructor(worker: Worker, scheduler: EventLoopScheduler) {
    this.#worker = worker;
    this.#settled = scheduler.queue("stored jobs");
    worker.on("message", (results: Result[]) => this.#settle(results));
    worker.on("error", (error) =>
      this.#end(new Error("The writer of the store has failed.", { cause: error })),
    );
    this.#exited = new Promise((resolve) => {
      worker.on("exit", () => {
        this.#end(new Error("The store is closed."));
        resolve();
      });
    });
  }

  /** Throws ConversationNotFound, StorageFull, StorageQuotaReached, MessageDelivered. */
  append(job: Omit<AppendJob, "type">): Promise<AppendStamps> {
    return this.#send({ type: "append", ...job }) as Promise<AppendStamps>;
  }

  /** Throws ConversationNotFound, StorageFull. */
  async copy(job: CopyOrder): Promise<void> {
    await this.#send({ type: "copy", ...job });
  }

  /**
   * Returns the number of rows that the last statement changed. Throws ConstraintViolation,
   * StorageFull.
   */
  run(...statements: Statement[]): Promise<number> {
    return this.#send({ type: "run", statements }) as Promise<number>;
  }

  /** Like `run`, for what deletes or stops something: it works when the disk is full. */
  release(...statements: Statement[]): Promise<number> {
    return this.#send({ type: "run", usesReserve: true, statements }) as Promise<number>;
  }

  /** Like `run`, for rows that a user adds. Throws StorageQuotaReached too. */
  add(userId: string, ...statements: Statement[]): Promise<number> {
    return this.#send({ type: "run", userId, statements }) as Promise<number>;
  }

  /**
   * Like `run`, for rows whose number is limited. Throws what `refuse` of the limit returns, and
   * StorageQuotaReached.
   */
  async addWithin(
    { userId, full, refuse, countsBytes, usesReserve = false }: WriteLimit,
    ...statements: Statement[]
  ): Promise<number> {
    const job: Job = { type: "run", full, usesReserve, statements, ...(countsBytes && { userId }) };
    return this.#send(job).catch((error: unknown) => {
      throw error instanceof LimitReached ? refuse() : error;
    }) as Promise<number>;
  }

  /** Writes the queue, then ends the thread. */
  async close(): Promise<void> {
    this.#flush();
    this.#end(new Error("The store is closed."), false);
    this.#worker.postMessage("close");
    await this.#exited;
    await this.#settled.drained();
  }

  #send(job: Job): Promise<AppendStamps | number> {
    if (this.#ended) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (this.#outbox.push(job) === 1) queueMicrotask(() => this.#flush());
    });
  }

  #flush(): void {
    if (this.#outbox.length === 0) return;
    this.#worker.postMessage(this.#outbox);
    this.#outbox = [];
  }

  #settle(results: Result[]): void {
    for (const [index, waiting] of this.#waiting.splice(0, results.length).entries()) {
      const result = results[index]!;
      this.version++;
      this.#settled.add(() =>
        result.ok ? waiting.resolve(result.value) : waiting.reject(toError(result.failure)),
      );
    }
  }

  #end(error: Error, rejectWaiting = true): void {
    this.#ended ??= error;
    if (!rejectWaiting) return;
    for (const waiting of this.#waiting.splice(0)) waiting.reject(this.#ended);
  }
}

/** A job that a limit refused. */
class LimitReached extends Error {}

function toError(failure: WriteFailure): Error {
  switch (failure.reason) {
    case "conversation-not-found":
      return new PlatformError("StoredConversationMissing");
    case "log-full":
      return new PlatformError("ConversationLogFull");
    case "delivered-already":
      return new PlatformError("PendingMessageDelivered");
    case "conversation-running":
      return new PlatformError("NavigatedWhileRunning");
    case "limit":
      return new LimitReached();
    case "quota":
      return new PlatformError(failure.quota === "userBytes" ? "UserStorageFull" : "ConversationStorageFull");
    case "error":
      if (isDiskFullCode(failure.errcode)) {
        return new PlatformError("DiskFull");
      }
      if (primaryCode(failure.errcode) === sqliteBusy) {
        return new PlatformError("DatabaseLocked");
      }
      if (primaryCode(failure.errcode) === sqliteConstraint) return new ConstraintViolation(failure.message);
      return new Error(`The store could not write: ${failure.message}`);
  }
}
