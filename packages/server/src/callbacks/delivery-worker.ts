import type { Logger } from "@sandpiper/core/log/logger";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { hexId } from "@sandpiper/wire";
import type { CallbackRow, CallbackStore } from "../store/callback-store.ts";
import type { EventLog } from "../store/event-log.ts";
import { findLastStatus, type Report, report } from "./agent-server.ts";
import { retryDelay } from "./backoff.ts";
import { type Batch, maxBatchEvents, nextBatch } from "./batch.ts";
import { type DeliveryOutcome, deliver, type Endpoint } from "./endpoint.ts";

export interface DeliveryWorkerDeps {
  callbacks: CallbackStore;
  events: EventLog;
  outbound: Outbound;
  /** The operator's endpoint. */
  server: Endpoint | undefined;
  /** The conversation for agent-server reports; undefined when it does not exist. */
  conversationInfo: (id: string) => object | undefined;
  slots: KeyedSemaphore;
  /** Masks a value in logs and errors. */
  registerSecret(value: string): void;
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
    const { callbacks, events, slots } = this.#deps;
    const row = callbacks.get(this.id);
    if (row?.status !== "ACTIVE" || (!this.#changed && events.lastSeq(this.#conversationId) < row.nextSeq)) {
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
    const leave = await slots.acquire(this.#keys(row), this.#closing.signal);
    try {
      // The row may have changed while the worker waited.
      const current = leave && callbacks.get(this.id);
      if (current?.status === "ACTIVE" && !this.#closing.signal.aborted) await this.#deliver(current);
    } finally {
      leave?.();
    }
    return true;
  }

  async #deliver(row: CallbackRow): Promise<void> {
    const { callbacks, events, logger } = this.#deps;
    const { processor } = row;
    const kinds = processor.kind === "WebhookCallbackProcessor" ? processor.kinds : null;
    let batch: Batch | undefined;
    let nextSeq = row.nextSeq;
    let status: unknown;
    for (let last = false; !batch && !last; ) {
      const records = events.read(this.#conversationId, nextSeq - 1, pageSize);
      batch = nextBatch(records, kinds);
      status = findLastStatus(records.slice(0, batch && batch.nextSeq - nextSeq));
      nextSeq = batch?.nextSeq ?? nextSeq + records.length;
      last = nextSeq > events.lastSeq(this.#conversationId);
    }
    this.#gathered = 0;
    this.#urgent = events.lastSeq(this.#conversationId) >= nextSeq;
    let outcome: DeliveryOutcome = { ok: true };
    if (batch && processor.kind === "LoggingCallbackProcessor") {
      logger.info(
        { conversation: hexId(this.#conversationId), kinds: batch.kinds },
        "events of a conversation",
      );
    } else if (processor.kind === "ServerWebhook" && this.#deps.server?.format === "agent-server") {
      const changed = this.#changed && events.lastSeq(this.#conversationId) < nextSeq;
      if (changed) this.#changed = false;
      outcome = await this.#report(this.#deps.server, { batch, status, changed });
      this.#changed ||= changed && !outcome.ok;
    } else if (batch) {
      outcome = await this.#send(row, batch);
    }
    if (this.#closing.signal.aborted) return;
    if (outcome.ok) await callbacks.update(row.id, { nextSeq, ...noFailure });
    else await this.#failed(row, outcome);
  }

  async #send(row: CallbackRow, batch: Batch): Promise<DeliveryOutcome> {
    const endpoint = this.#endpoint(row);
    if (!endpoint) return { ok: false, detail: "The operator has removed the URL.", final: true };
    const id = `${hexId(row.id)}-${batch.firstSeq}-${batch.lastSeq}`;
    const delivery = { id, conversationId: this.#conversationId, events: batch.events };
    return deliver(this.#deps.outbound, endpoint, delivery, this.#closing.signal);
  }

  #report(endpoint: Endpoint, what: Omit<Report, "conversationId">): Promise<DeliveryOutcome> {
    const { outbound, conversationInfo } = this.#deps;
    const conversationId = this.#conversationId;
    const info = () => conversationInfo(conversationId);
    return report(outbound, endpoint, { conversationId, ...what }, info, this.#closing.signal);
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

  #endpoint({ processor, secret }: CallbackRow): Endpoint | undefined {
    if (secret !== null) this.#deps.registerSecret(secret);
    if (processor.kind === "WebhookCallbackProcessor") return { url: processor.url, secret };
    return this.#deps.server;
  }

  /** Semaphore keys of a delivery; the operator's callbacks have one owner. */
  #keys(row: CallbackRow): string[] {
    const owner = row.processor.kind === "ServerWebhook" ? "server" : `user ${row.userId}`;
    const url = this.#endpoint(row)?.url ?? "";
    return ["all", owner, `${owner} ${URL.parse(url)?.origin ?? url}`];
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
