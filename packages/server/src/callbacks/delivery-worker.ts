import type { Logger } from "@sandpiper/core/log/logger";
import { hexId } from "@sandpiper/wire";
import type { CallbackRow, CallbackStore } from "../store/callback-store.ts";
import type { EventLog } from "../store/event-log.ts";
import { findLastStatus } from "./agent-server.ts";
import { retryDelay } from "./backoff.ts";
import { type Batch, maxBatchEvents, nextBatch } from "./batch.ts";
import type { DeliveryOutcome } from "./endpoint.ts";
import type { CallbackSender } from "./sender.ts";

export interface DeliveryWorkerDeps {
  callbacks: CallbackStore;
  events: EventLog;
  sender: CallbackSender;
  logger: Logger;
  /** How long events are collected before they are sent, ms. */
  batchDelayMs: number;
  /** How long a callback may fail before it is marked as failed, ms. */
  giveUpMs: number;
}

const pageSize = 2 * maxBatchEvents;

/** Delay after a failed write to the store. */
const storeRetryMs = 5_000;

/**
 * Delivers the pending events of one callback batch by batch, and ends when none is left. The
 * callback's row has all durable state; a delivery whose success was not stored is repeated.
 */
export class DeliveryWorker {
  readonly id: string;
  readonly #deps: DeliveryWorkerDeps;
  readonly #conversationId: string;
  readonly #closing = new AbortController();
  readonly #onEnd: () => void;
  /** Records since the last batch, and the time when they are sent. */
  #gathered = 0;
  #dueAt = 0;
  #urgent = false;
  /** The conversation's metadata has changed, which agent-server reports include. Not durable. */
  #changed = false;
  /**
   * Number of notifications. A decision to wait or to end holds only while this number stays the
   * same.
   */
  #notices = 0;
  #interrupt: (() => void) | undefined;
  readonly #ended: Promise<void>;

  /** `onEnd` is called synchronously when the worker finds nothing to do. */
  constructor(deps: DeliveryWorkerDeps, id: string, conversationId: string, onEnd: () => void) {
    this.#deps = deps;
    this.id = id;
    this.#conversationId = conversationId;
    this.#onEnd = onEnd;
    this.#dueAt = Date.now() + deps.batchDelayMs;
    this.#ended = Promise.resolve().then(() => this.#work());
  }

  /** Notifies of appended records; `urgent` ones are sent at once and end a retry delay. */
  notifyRecords(records: number, urgent: boolean): void {
    this.#notices++;
    if (this.#gathered === 0) this.#dueAt = Date.now() + this.#deps.batchDelayMs;
    this.#gathered += records;
    this.#urgent ||= urgent;
    if (this.#urgent || this.#gathered >= maxBatchEvents) this.#interrupt?.();
  }

  /** Notifies of a change without a log record. */
  notifyChange(): void {
    this.#changed = true;
    this.notifyRecords(0, true);
  }

  /** Aborts; a delivery in progress counts as not delivered. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("The callback has ended."));
    this.#interrupt?.();
    await this.#ended;
  }

  async #work(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        if (!(await this.#step())) return;
      } catch (error) {
        this.#deps.logger.error({ err: error, callback: this.id }, "a callback delivery failed; retrying");
        await this.#sleep(storeRetryMs);
      }
    }
    this.#onEnd();
  }

  /** Performs one wait or one delivery; false: nothing is left. */
  async #step(): Promise<boolean> {
    const { callbacks, events, sender } = this.#deps;
    const notices = this.#notices;
    const [row, lastSeq] = await Promise.all([callbacks.get(this.id), events.lastSeq(this.#conversationId)]);
    // A notification during the look-up may be about a record that the look-up did not see.
    if (notices !== this.#notices) return true;
    if (row?.status !== "ACTIVE" || (!this.#changed && lastSeq < row.nextSeq)) {
      this.#onEnd();
      return false;
    }
    const now = Date.now();
    if (row.nextAttemptAt !== null && row.nextAttemptAt > now) {
      await this.#sleep(row.nextAttemptAt - now);
      return true;
    }
    const isFirst = row.attempts === 0;
    if (isFirst && !this.#urgent && this.#gathered < maxBatchEvents && this.#dueAt > now) {
      await this.#sleep(this.#dueAt - now);
      return true;
    }
    const leave = await sender.acquire(row, this.#closing.signal);
    try {
      // The row may have changed while the worker waited.
      const current = leave && (await callbacks.get(this.id));
      if (current?.status === "ACTIVE" && !this.#closing.signal.aborted) await this.#deliver(current);
    } finally {
      leave?.();
    }
    return true;
  }

  async #deliver(row: CallbackRow): Promise<void> {
    const { callbacks, events, sender, logger } = this.#deps;
    const { server } = sender;
    const { signal } = this.#closing;
    const { processor } = row;
    const kinds = processor.kind === "WebhookCallbackProcessor" ? processor.kinds : null;
    let batch: Batch | undefined;
    let nextSeq = row.nextSeq;
    let status: unknown;
    let lastSeq = 0;
    // The number is read before the other reads, because notifications may come during them.
    this.#gathered = 0;
    this.#urgent = false;
    for (let last = false; !batch && !last; ) {
      const records = await events.read(this.#conversationId, nextSeq - 1, pageSize);
      batch = nextBatch(records, kinds);
      status = findLastStatus(records.slice(0, batch && batch.nextSeq - nextSeq));
      nextSeq = batch?.nextSeq ?? nextSeq + records.length;
      lastSeq = await events.lastSeq(this.#conversationId);
      last = nextSeq > lastSeq;
    }
    this.#urgent ||= lastSeq >= nextSeq;
    let outcome: DeliveryOutcome = { ok: true };
    if (batch && processor.kind === "LoggingCallbackProcessor") {
      logger.info(
        { conversation: hexId(this.#conversationId), kinds: batch.kinds },
        "events of a conversation",
      );
    } else if (processor.kind === "ServerWebhook" && server?.format === "agent-server") {
      const changed = this.#changed && lastSeq < nextSeq;
      if (changed) this.#changed = false;
      const what = { conversationId: this.#conversationId, batch, status, changed };
      outcome = await sender.report(server, what, signal);
      this.#changed ||= changed && !outcome.ok;
    } else if (batch) {
      outcome = await sender.send(row, batch, signal);
    }
    if (signal.aborted) return;
    if (outcome.ok) await callbacks.update(row.id, { nextSeq, ...noFailure });
    else await this.#failed(row, outcome);
  }

  async #failed(
    row: CallbackRow,
    { detail, retryAfterMs, final }: DeliveryOutcome & { ok: false },
  ): Promise<void> {
    const now = Date.now();
    const attempts = row.attempts + 1;
    const failingSince = row.failingSince ?? now;
    const isOver = final === true || now - failingSince >= this.#deps.giveUpMs;
    const nextAttemptAt = isOver ? null : now + retryDelay(attempts, retryAfterMs);
    const change = {
      attempts,
      failingSince,
      nextAttemptAt,
      detail,
      status: isOver ? "FAILED" : "ACTIVE",
    } as const;
    await this.#deps.callbacks.update(row.id, change);
    if (isOver)
      this.#deps.logger.warn({ callback: row.id, attempts, detail }, "a callback has failed for too long");
  }

  /** Waits until the time is over or an urgent notification arrives. */
  #sleep(ms: number): Promise<void> {
    if (this.#closing.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#interrupt = undefined;
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#interrupt = done;
    });
  }
}

/** Fields of a callback without failures. */
export const noFailure = {
  detail: null,
  attempts: 0,
  failingSince: null,
  nextAttemptAt: null,
  status: "ACTIVE",
} as const;
